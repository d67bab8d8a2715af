package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a server, and misbehaves on demand.
type Proxy struct {
	Addr string
	l    net.Listener

	mu     sync.Mutex
	target string
	cut    bool          // new connections are refused, existing ones closed
	hole   bool          // connections stay open, but nothing gets through
	mute   bool          // connections stay open, and the server is heard no more
	delay  time.Duration // of each chunk, in both directions
	conns  map[net.Conn]bool
}

// StartProxy listens on loopback and forwards to target until the test ends.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, l: l, conns: map[net.Conn]bool{}}
	go p.accept()
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
	})
	return p
}

// Cut closes all connections and refuses new ones, until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		_ = c.Close()
	}
}

// Hole lets nothing through any more, without closing anything, until Heal.
func (p *Proxy) Hole() { p.set(func() { p.hole = true }) }

// Mute passes requests and holds the answers, until Heal.
func (p *Proxy) Mute() { p.set(func() { p.mute = true }) }

// Slow delays each chunk, in both directions.
func (p *Proxy) Slow(d time.Duration) { p.set(func() { p.delay = d }) }

// Retarget sends new connections elsewhere.
func (p *Proxy) Retarget(target string) { p.set(func() { p.target = target }) }

// Heal ends all these faults.
func (p *Proxy) Heal() { p.set(func() { p.cut, p.hole, p.mute, p.delay = false, false, false, 0 }) }

func (p *Proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *Proxy) state(answers bool) (cut, hole bool, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut, p.hole || p.mute && answers, p.delay
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		go p.serve(c)
	}
}

func (p *Proxy) serve(c net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	up, err := net.Dial("tcp", target)
	if err != nil {
		_ = c.Close()
		return
	}
	p.mu.Lock()
	if p.cut {
		_, _ = c.Close(), up.Close()
		p.mu.Unlock()
		return
	}
	p.conns[c], p.conns[up] = true, true
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { p.copy(up, c, false) })
	wg.Go(func() { p.copy(c, up, true) })
	wg.Wait()
	p.mu.Lock()
	delete(p.conns, c)
	delete(p.conns, up)
	p.mu.Unlock()
}

func (p *Proxy) copy(dst io.WriteCloser, src io.ReadCloser, answers bool) {
	buf := make([]byte, 64<<10)
	defer func() { _, _ = dst.Close(), src.Close() }()
	for {
		n, err := src.Read(buf)
		for cut, hole, delay := p.state(answers); hole || delay > 0; cut, hole, delay = p.state(answers) {
			if cut {
				return
			}
			if !hole {
				time.Sleep(delay)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
