package h1

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"antirobot/proxy/h1/hello"
	"antirobot/servertest"
)

const way = 100 * time.Millisecond // of the made-up delays, each direction

// behindOf makes connections with dial until what the gateway measures satisfies enough.
func behindOf(t *testing.T, dial func() (net.Conn, error), seen <-chan time.Duration, enough func(time.Duration) bool) {
	t.Helper()
	for range 100 { // a busy machine may be late for some of them
		nc, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
		_ = c.SetDeadline(time.Now().Add(60 * time.Second))
		if _, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		got := <-seen
		c.Close()
		if t.Log(got); enough(got) {
			return
		}
	}
	t.Error("never")
}

func newBehindGateway(t *testing.T, listen string) (*gateway, <-chan time.Duration) {
	t.Helper()
	certs, err := hello.LoadCertificates([]hello.CertificateFiles{certificate(t, t.TempDir(), "a.test", 1)})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan time.Duration, 1)
	return newGateway(t, nil, setup{
		listen: listen, listener: ListenerOptions{TLS: certs.Config()},
		handler: func(x *Exchange, _ func()) {
			seen <- x.View.Behind
			_ = x.Reply(200, nil, nil)
		},
	}), seen
}

// TestAnswersBehind: a client that talks through a machine near us, and is itself far away from it, answers later than
// its connection's end. One that is here does not.
func TestAnswersBehind(t *testing.T) {
	g, seen := newBehindGateway(t, "")
	here := func() (net.Conn, error) { return net.Dial("tcp", g.addr) }
	behindOf(t, here, seen, func(d time.Duration) bool { return d > 0 && d < way })
	exit := relay(t, g.addr, way)
	through := func() (net.Conn, error) { return net.Dial("tcp", exit) }
	behindOf(t, through, seen, func(d time.Duration) bool { return d > way*3/2 })
}

// relay passes bytes between its clients and addr, and takes its time for each piece in each direction.
func relay(t *testing.T, addr string, late time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				client.Close()
				return
			}
			go pass(server, client, late)
			go pass(client, server, late)
		}
	}()
	return l.Addr().String()
}

func pass(dst, src net.Conn, late time.Duration) {
	defer dst.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := src.Read(b)
		time.Sleep(late)
		if _, werr := dst.Write(b[:n]); werr != nil || err != nil {
			return
		}
	}
}

// TestFarAwayIsNotBehind: who is far away, and holds the connection itself, is told from who talks through a machine
// near us: the connection takes as long as its answers. The way is a network device in a namespace of its own whose
// packets come late.
func TestFarAwayIsNotBehind(t *testing.T) {
	runtime.LockOSThread() // for good: the thread stays in the namespace, and ends with the test
	dev, err := farAway()
	if err != nil {
		servertest.Lack(t, "/dev/net/tun ("+err.Error()+")", "run the tests as root")
	}
	carried := make(chan struct{})
	go carry(dev, carried)
	t.Cleanup(func() { dev.Close(); <-carried })
	g, seen := newBehindGateway(t, "198.18.0.1:0")
	_, port, err := net.SplitHostPort(g.addr)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() (net.Conn, error) {
		began := time.Now()
		c, err := net.Dial("tcp", "198.18.0.2:"+port)
		if took := time.Since(began); err == nil && took < 2*way {
			t.Errorf("it is not far away: %v", took)
		}
		return c, err
	}
	behindOf(t, dial, seen, func(d time.Duration) bool { return d > 0 && d < way })
}

// farAway moves the thread to a network namespace of its own, whose device leads to 198.18.0.2.
func farAway() (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	control, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	defer unix.Close(control)
	set := func(on int, request uint, fill func(r *unix.Ifreq) error) {
		r, e := unix.NewIfreq("far0")
		if e == nil {
			e = fill(r)
		}
		if e == nil {
			e = unix.IoctlIfreq(on, request, r)
		}
		err = errors.Join(err, e)
	}
	number := func(n uint16) func(*unix.Ifreq) error {
		return func(r *unix.Ifreq) error { r.SetUint16(n); return nil }
	}
	address := func(a ...byte) func(*unix.Ifreq) error { return func(r *unix.Ifreq) error { return r.SetInet4Addr(a) } }
	set(fd, unix.TUNSETIFF, number(unix.IFF_TUN|unix.IFF_NO_PI))
	set(control, unix.SIOCSIFADDR, address(198, 18, 0, 1))
	set(control, unix.SIOCSIFNETMASK, address(255, 255, 255, 0))
	set(control, unix.SIOCSIFFLAGS, number(unix.IFF_UP))
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "tun"), nil
}

// carry sends each packet back late, in order, with its addresses exchanged, which leaves its checksums valid.
func carry(dev *os.File, done chan<- struct{}) {
	type packet struct {
		at time.Time
		b  []byte
	}
	late := make(chan packet, 1024)
	go func() {
		defer close(done)
		for p := range late {
			time.Sleep(time.Until(p.at))
			_, _ = dev.Write(p.b)
		}
	}()
	defer close(late)
	b := make([]byte, 2048)
	for {
		n, err := dev.Read(b)
		if err != nil {
			return
		}
		if n < 20 || b[0]>>4 != 4 {
			continue
		}
		p := bytes.Clone(b[:n])
		copy(p[12:16], b[16:20])
		copy(p[16:20], b[12:16])
		late <- packet{time.Now().Add(way), p}
	}
}
