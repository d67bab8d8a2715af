package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"antirobot/config"
	"antirobot/proxy"
	"antirobot/proxy/acme"
	"antirobot/proxy/h1"
	"antirobot/proxy/h1/hello"
	"antirobot/spravka"
	"antirobot/store"
)

// certificates are those of one listener. All listeners have theirs read here, at the start and with every reload.
type certificates struct {
	*hello.Certificates
	listener int // of config.Listen; adminListener: the private one
}

// adminListener is the private listener's number.
const adminListener = -1

// filesOf returns the files that next names for a listener, and the key of its section. A listener whose address
// changes continues unchanged until the restart, with its current files.
func (a *Server) filesOf(listener int, next *config.Config) (key string, files []hello.CertificateFiles) {
	if listener == adminListener {
		if a.Config().Admin.TLSCert == "" {
			return "admin", nil
		}
		return "admin", []hello.CertificateFiles{{CertFile: a.Config().Admin.TLSCert, KeyFile: a.Config().Admin.TLSKey}}
	}
	l := a.Config().Listen[listener]
	if listener < len(next.Listen) && next.Listen[listener].Address == l.Address && next.Listen[listener].TLSCert != "" {
		l = next.Listen[listener]
	}
	return fmt.Sprintf("listen[%d]", listener), l.Files()
}

func (a *Server) openCertificates() error {
	for i := adminListener; i < len(a.Config().Listen); i++ {
		key, files := a.filesOf(i, a.Config())
		if len(files) == 0 {
			continue
		}
		c, err := hello.LoadCertificates(files)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		a.certs = append(a.certs, &certificates{c, i})
	}
	return a.openClientCAs()
}

// openClientCAs reads who signs the certificates of clients.
func (a *Server) openClientCAs() (err error) {
	a.clients = make(map[int]*h1.ClientCAs)
	for i := range a.Config().Listen {
		l := &a.Config().Listen[i]
		if l.ClientCA == "" {
			continue
		}
		if a.clients[i], err = h1.LoadClientCAs(l.ClientCA, l.ClientRequired); err != nil {
			return fmt.Errorf("listen[%d].%w", i, err)
		}
	}
	return nil
}

// tlsOf returns what a listener speaks TLS with; nil: it does not.
func (a *Server) tlsOf(listener int) *tls.Config {
	var own *hello.Certificates
	for _, c := range a.certs {
		if c.listener == listener {
			own = c.Certificates
		}
	}
	obtains := listener != adminListener && a.Config().Listen[listener].ACME
	if obtains {
		own = own.WithOthers(a.acme.GetCertificate)
	}
	if own == nil {
		return nil
	}
	cfg := own.Config()
	if listener != adminListener && a.clients[listener] != nil {
		a.clients[listener].Apply(cfg, acme.Protocol)
	}
	if listener != adminListener && a.http2 != nil {
		cfg.NextProtos = []string{"h2", "http/1.1"}
	}
	if listener != adminListener {
		a.sealTickets(cfg)
	}
	if obtains {
		cfg.NextProtos = append(cfg.NextProtos, acme.Protocol)
	}
	return cfg
}

// sealTickets gives a listener these keys, now and as they change.
func (a *Server) sealTickets(cfg *tls.Config) {
	a.tickets = append(a.tickets, cfg)
	a.shareTickets(time.Now())
}

// shareTickets gives all listeners the keys of session tickets, from the ring: gateways that share it resume each other's
// sessions.
func (a *Server) shareTickets(at time.Time) {
	keys := a.keys.Ring().TicketKeys(at)
	for _, cfg := range a.tickets {
		cfg.SetSessionTicketKeys(keys)
	}
}

// ticketTurn is how often the keys of session tickets are looked at; they change every day, or with the ring.
const ticketTurn = time.Hour

// turnTickets keeps these keys up to date until ctx ends.
func (a *Server) turnTickets(ctx context.Context) {
	store.Every(ctx, ticketTurn, func() { a.shareTickets(time.Now()) })
}

// openACME makes the keeper of obtained certificates; they are obtained once the listeners are open.
func (a *Server) openACME() (err error) {
	if len(a.Config().TLS.ACME.Hosts) == 0 {
		return nil
	}
	d := acme.Deps{Store: a.store, Seal: ringSealer{a.keys}, Log: a.Logger("acme"), Metrics: a.set}
	for i := range a.Config().Listen {
		l := &a.Config().Listen[i]
		_, port, _ := net.SplitHostPort(l.Address)
		n, _ := net.LookupPort("tcp", port)
		switch {
		case l.ACME:
			d.TLSPort = n
		case !l.Secure() && (d.HTTPPort == 0 || l.RedirectHTTPS):
			d.HTTPPort = n
		}
	}
	a.acme, err = acme.New(a.Config().TLS.ACME, d)
	return err
}

// Certificates implements admin.Gateway.
func (a *Server) Certificates() []string {
	if a.acme == nil {
		return nil
	}
	return a.acme.Problems()
}

func (a *Server) closeACME() error {
	if a.acme == nil {
		return nil
	}
	return a.acme.Close()
}

// plainHandler serves a listener without TLS; nil: as all others.
func (a *Server) plainHandler(l *config.Listener) h1.Handler {
	if l.Secure() {
		return nil
	}
	var h h1.Handler
	if l.RedirectHTTPS {
		h = a.redirect()
	}
	if a.acme == nil {
		return h
	}
	if h == nil {
		h = a.gateway
	}
	return &acme.Challenges{Keeper: a.acme, Next: h}
}

// redirect sends visitors to the first listener with TLS.
func (a *Server) redirect() h1.Handler {
	for i := range a.Config().Listen {
		if a.Config().Listen[i].Secure() {
			_, port, _ := net.SplitHostPort(a.Config().Listen[i].Address)
			return proxy.Redirect{Port: port}
		}
	}
	return proxy.Redirect{Port: "443"} // something else ends TLS there
}

// ringSealer seals what ACME stores with the keys of the ring.
type ringSealer struct{ keys *spravka.Keys }

// forever is when these seals expire: certificates have an end of their own.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (s ringSealer) Seal(name string, plain []byte) []byte {
	return s.keys.Ring().SealSecret(nil, spravka.PurposeCertificate, []byte(name), plain, forever)
}

func (s ringSealer) Open(name string, sealed []byte) ([]byte, error) {
	return s.keys.Ring().OpenSecret(nil, spravka.PurposeCertificate, []byte(name), sealed, time.Unix(0, 0))
}

// prepareCertificates reads the files of all listeners again.
func (a *Server) prepareCertificates(next *config.Config) (commit func(), err error) {
	var commits []func()
	for _, c := range a.certs {
		key, files := a.filesOf(c.listener, next)
		use, err := c.Prepare(files)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		commits = append(commits, use)
	}
	for i, c := range a.clients {
		l := &a.Config().Listen[i]
		if i < len(next.Listen) && next.Listen[i].Address == l.Address && next.Listen[i].ClientCA != "" {
			l = &next.Listen[i]
		}
		use, err := c.Prepare(l.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("listen[%d].%w", i, err)
		}
		commits = append(commits, use)
	}
	return func() {
		for _, use := range commits {
			use()
		}
	}, nil
}
