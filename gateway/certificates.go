package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"antirobot/config"
	"antirobot/proxy/acme"
	"antirobot/proxy/h1"
	"antirobot/proxy/h1/hello"
	"antirobot/spravka"
	"antirobot/store"
)

// certs are the certificates of all listeners: from files, which every reload reads again, or obtained by ACME.
type certs struct {
	*base
	files   []listenerCerts
	clients map[int]*h1.ClientCAs // by listener, of those that ask for certificates
	keys    *spravka.Keys         // of session tickets
	tickets []*tls.Config         // of the listeners for visitors
	acme    *acme.Keeper          // nil: no certificate is obtained
}

type listenerCerts struct {
	*hello.Certificates
	listener int // of config.Listen; adminListener: the private one
}

// adminListener is the private listener's number.
const adminListener = -1

// filesOf returns the files that next names for a listener, and the key of its section. A listener whose address
// changes continues unchanged until the restart, with its current files.
func (c *certs) filesOf(listener int, next *config.Config) (key string, files []hello.CertificateFiles) {
	if listener == adminListener {
		if c.Config().Admin.TLSCert == "" {
			return "admin", nil
		}
		return "admin", []hello.CertificateFiles{{CertFile: c.Config().Admin.TLSCert, KeyFile: c.Config().Admin.TLSKey}}
	}
	l := c.Config().Listen[listener]
	if listener < len(next.Listen) && next.Listen[listener].Address == l.Address &&
		next.Listen[listener].TLSCert != "" {
		l = next.Listen[listener]
	}
	return fmt.Sprintf("listen[%d]", listener), l.Files()
}

func (c *certs) open() error {
	for i := adminListener; i < len(c.Config().Listen); i++ {
		key, files := c.filesOf(i, c.Config())
		if len(files) == 0 {
			continue
		}
		found, err := hello.LoadCertificates(files)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		c.files = append(c.files, listenerCerts{found, i})
	}
	return c.openClientCAs()
}

// openClientCAs reads the authorities that sign the certificates of clients.
func (c *certs) openClientCAs() (err error) {
	c.clients = make(map[int]*h1.ClientCAs)
	for i := range c.Config().Listen {
		l := &c.Config().Listen[i]
		if l.ClientCA == "" {
			continue
		}
		if c.clients[i], err = h1.LoadClientCAs(l.ClientCA, l.ClientRequired); err != nil {
			return fmt.Errorf("listen[%d].%w", i, err)
		}
	}
	return nil
}

// tlsOf returns the TLS configuration of a listener; nil: it speaks no TLS.
func (c *certs) tlsOf(listener int) *tls.Config {
	var own *hello.Certificates
	for _, f := range c.files {
		if f.listener == listener {
			own = f.Certificates
		}
	}
	obtains := listener != adminListener && c.Config().Listen[listener].ACME
	if obtains {
		own = own.WithOthers(c.acme.GetCertificate)
	}
	if own == nil {
		return nil
	}
	cfg := own.Config()
	if listener != adminListener {
		if c.clients[listener] != nil {
			c.clients[listener].Apply(cfg, acme.Protocol)
		}
		if c.Config().HTTP2.Enabled {
			cfg.NextProtos = []string{"h2", "http/1.1"}
		}
		c.sealTickets(cfg)
	}
	if obtains {
		cfg.NextProtos = append(cfg.NextProtos, acme.Protocol)
	}
	return cfg
}

// sealTickets gives a listener the keys of session tickets, now and as they change.
func (c *certs) sealTickets(cfg *tls.Config) {
	c.tickets = append(c.tickets, cfg)
	c.shareTickets(time.Now())
}

// shareTickets gives all listeners keys from the ring, so that gateways that share it resume each other's sessions.
func (c *certs) shareTickets(at time.Time) {
	keys := c.keys.Ring().TicketKeys(at)
	for _, cfg := range c.tickets {
		cfg.SetSessionTicketKeys(keys)
	}
}

// ticketTurn is the interval of key checks; keys change every day, or with the ring.
const ticketTurn = time.Hour

// turnTickets keeps these keys up to date until ctx ends.
func (c *certs) turnTickets(ctx context.Context) {
	store.Every(ctx, ticketTurn, func() { c.shareTickets(time.Now()) })
}

// openACME makes the keeper of obtained certificates; they are obtained once the listeners are open.
func (c *certs) openACME(s *storage) (err error) {
	c.keys = s.keys
	if len(c.Config().TLS.ACME.Hosts) == 0 {
		return nil
	}
	d := acme.Deps{Store: s.store, Seal: ringSealer{s.keys}, Log: c.Logger("acme"), Metrics: c.set}
	for i := range c.Config().Listen {
		l := &c.Config().Listen[i]
		_, port, _ := net.SplitHostPort(l.Address)
		n, _ := net.LookupPort("tcp", port)
		switch {
		case l.ACME:
			d.TLSPort = n
		case !l.Secure() && (d.HTTPPort == 0 || l.RedirectHTTPS):
			d.HTTPPort = n
		}
	}
	c.acme, err = acme.New(c.Config().TLS.ACME, d)
	return err
}

// problems says for which hosts no certificate could be obtained, and why.
func (c *certs) problems() []string {
	if c.acme == nil {
		return nil
	}
	return c.acme.Problems()
}

func (c *certs) closeACME() error {
	if c.acme == nil {
		return nil
	}
	return c.acme.Close()
}

// ringSealer seals what ACME stores with the keys of the ring.
type ringSealer struct{ keys *spravka.Keys }

// forever is the expiry of these seals: certificates have an expiry of their own.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (s ringSealer) Seal(name string, plain []byte) []byte {
	return s.keys.Ring().SealSecret(nil, spravka.PurposeCertificate, []byte(name), plain, forever)
}

func (s ringSealer) Open(name string, sealed []byte) ([]byte, error) {
	return s.keys.Ring().OpenSecret(nil, spravka.PurposeCertificate, []byte(name), sealed, time.Unix(0, 0))
}

func (c *certs) prepare(next *config.Config) (commit func(), err error) {
	var commits []func()
	for _, f := range c.files {
		key, files := c.filesOf(f.listener, next)
		use, err := f.Prepare(files)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		commits = append(commits, use)
	}
	for i, ca := range c.clients {
		l := &c.Config().Listen[i]
		if i < len(next.Listen) && next.Listen[i].Address == l.Address && next.Listen[i].ClientCA != "" {
			l = &next.Listen[i]
		}
		use, err := ca.Prepare(l.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("listen[%d].%w", i, err)
		}
		commits = append(commits, use)
	}
	return commitAll(commits), nil
}
