package hello

import (
	"net"
	"time"
)

// Paced measures, below a TLS handshake, by how much later the client answers than the end of its TCP connection: a
// proxied client has a longer way. The fastest answer counts. It is for one goroutine until done.
type Paced struct {
	net.Conn
	Done bool // no measurement

	asked time.Time // last unanswered message; zero: none
	least time.Duration
}

func (p *Paced) Write(b []byte) (int, error) {
	if !p.Done {
		p.asked = time.Now()
	}
	return p.Conn.Write(b)
}

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

// Behind ends the measurement against sock, the TCP connection; 0: unknown.
func (p *Paced) Behind(sock net.Conn) time.Duration {
	p.Done = true
	way, ok := roundTrip(sock)
	if !ok || p.least == 0 {
		return 0
	}
	return max(p.least-way, time.Microsecond)
}
