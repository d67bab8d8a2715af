package gateway

import (
	"crypto/tls"
	"fmt"

	"antirobot/config"
	"antirobot/proxy/h1"
)

// certificates are those of one listener. All listeners have theirs read here, at the start and with every reload.
type certificates struct {
	*h1.Certificates
	listener int // of config.Listen; adminListener: the private one
}

// adminListener is the private listener's number.
const adminListener = -1

// filesOf returns the files that next names for a listener, and the key of its section. A listener whose address
// changes continues unchanged until the restart, with its current files.
func (a *Server) filesOf(listener int, next *config.Config) (key string, files h1.CertificateFiles) {
	if listener == adminListener {
		return "admin", h1.CertificateFiles{CertFile: a.Cfg.Admin.TLSCert, KeyFile: a.Cfg.Admin.TLSKey}
	}
	l := a.Cfg.Listen[listener]
	if listener < len(next.Listen) && next.Listen[listener].Address == l.Address && next.Listen[listener].TLSCert != "" {
		l = next.Listen[listener]
	}
	return fmt.Sprintf("listen[%d]", listener), h1.CertificateFiles{CertFile: l.TLSCert, KeyFile: l.TLSKey}
}

func (a *Server) openCertificates() error {
	for i := adminListener; i < len(a.Cfg.Listen); i++ {
		key, files := a.filesOf(i, a.Cfg)
		if files.CertFile == "" {
			continue
		}
		c, err := h1.LoadCertificates([]h1.CertificateFiles{files})
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		a.certs = append(a.certs, &certificates{c, i})
	}
	return nil
}

// tlsOf returns what a listener speaks TLS with; nil: it does not.
func (a *Server) tlsOf(listener int) *tls.Config {
	for _, c := range a.certs {
		if c.listener == listener {
			return c.Config()
		}
	}
	return nil
}

// prepareCertificates reads the files of all listeners again.
func (a *Server) prepareCertificates(next *config.Config) (commit func(), err error) {
	var commits []func()
	for _, c := range a.certs {
		key, files := a.filesOf(c.listener, next)
		use, err := c.Prepare([]h1.CertificateFiles{files})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		commits = append(commits, use)
	}
	return func() {
		for _, use := range commits {
			use()
		}
	}, nil
}
