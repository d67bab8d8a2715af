package admin

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// certRecheck is how often the files of a certificate are looked at.
const certRecheck = 10 * time.Second

// keyPair serves a certificate and reads it again when its files change. A pair that does not load leaves the old one
// in use.
type keyPair struct {
	cert, key string
	now       func() time.Time

	mu      sync.Mutex
	held    *tls.Certificate
	changed time.Time // of the files as they were read
	checked time.Time
}

func (p *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.now()
	if p.held != nil && at.Sub(p.checked) < certRecheck {
		return p.held, nil
	}
	p.checked = at
	changed := newest(p.cert, p.key)
	if p.held != nil && changed.Equal(p.changed) {
		return p.held, nil
	}
	c, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		if p.held != nil {
			return p.held, nil
		}
		return nil, fmt.Errorf("load certificate: %w", err)
	}
	p.held, p.changed = &c, changed
	return p.held, nil
}

func newest(paths ...string) time.Time {
	var t time.Time
	for _, path := range paths {
		if st, err := os.Stat(path); err == nil && st.ModTime().After(t) {
			t = st.ModTime()
		}
	}
	return t
}
