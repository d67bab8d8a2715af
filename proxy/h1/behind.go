package h1

import (
	"net"
	"time"
)

// paced is a connection below a TLS handshake. It measures by how much later its client answers than the end of the TCP
// connection would: whoever talks through somebody else's machine has the way to that machine on top of the connection's own.
// The least of a handshake's answers counts, as software may be slow once. It belongs to one goroutine until it is done.
type paced struct {
	net.Conn
	asked time.Time // when the last message was sent that is not answered yet; zero: none
	least time.Duration
	done  bool
}

// Write implements net.Conn.
func (p *paced) Write(b []byte) (int, error) {
	if !p.done {
		p.asked = time.Now()
	}
	return p.Conn.Write(b)
}

// Read implements net.Conn.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if !p.done && n > 0 && !p.asked.IsZero() {
		if took := time.Since(p.asked); p.least == 0 || took < p.least {
			p.least = took
		}
		p.asked = time.Time{}
	}
	return n, err
}

// behind ends the measurement: by how much later the client has answered than sock's end would; 0: it is not known.
func (p *paced) behind(sock net.Conn) time.Duration {
	p.done = true
	way, ok := roundTrip(sock)
	if !ok || p.least == 0 {
		return 0
	}
	return max(p.least-way, time.Microsecond)
}
