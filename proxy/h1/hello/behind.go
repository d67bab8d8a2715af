package hello

import (
	"net"
	"time"
)

// Paced is a connection below a TLS handshake. It measures by how much later its client answers than the end of the TCP
// connection would: whoever talks through somebody else's machine has the way to that machine on top of the connection's own.
// The least of a handshake's answers counts, as software may be slow once. It belongs to one goroutine until it is done.
type Paced struct {
	net.Conn
	Done bool // nothing is measured, or no longer

	asked time.Time // when the last message was sent that is not answered yet; zero: none
	least time.Duration
}

// Write implements net.Conn.
func (p *Paced) Write(b []byte) (int, error) {
	if !p.Done {
		p.asked = time.Now()
	}
	return p.Conn.Write(b)
}

// Read implements net.Conn.
func (p *Paced) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if !p.Done && n > 0 && !p.asked.IsZero() {
		if took := time.Since(p.asked); p.least == 0 || took < p.least {
			p.least = took
		}
		p.asked = time.Time{}
	}
	return n, err
}

// Behind ends the measurement: by how much later the client has answered than the end of sock, the TCP connection itself, would; 0: it
// is not known.
func (p *Paced) Behind(sock net.Conn) time.Duration {
	p.Done = true
	way, ok := roundTrip(sock)
	if !ok || p.least == 0 {
		return 0
	}
	return max(p.least-way, time.Microsecond)
}
