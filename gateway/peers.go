package gateway

import (
	"crypto/tls"
	"os"
	"strconv"

	"antirobot/admin/peers"
	"antirobot/spravka"
)

// openPeers prepares for asking the other gateways, if there can be any.
func (a *Server) openPeers() error {
	if !a.store.Shared() || a.Config().Admin.Listen == "" {
		return nil
	}
	a.peers = peers.New(peers.Deps{
		KV: a.store, Ring: func() *spravka.Ring { return a.keys.Ring() }, Self: a.self, Timeout: a.Config().Admin.AskTimeout, Now: a.store.Now, Log: a.Logger("peers"),
	})
	return nil
}

func (a *Server) closePeers() error {
	if a.peers == nil {
		return nil
	}
	return a.peers.Close()
}

// self is what the other gateways are told of this one.
func (a *Server) self() peers.Peer {
	p := peers.Peer{Name: a.name(), Version: a.version, Address: a.Config().Admin.Reached(a.AdminAddr)}
	if a.pushes != nil {
		p.Config = a.pushes.state().Version
	}
	for _, c := range a.certs {
		if c.listener != adminListener || p.Address == "" {
			continue
		}
		if cert, err := c.Config().GetCertificate(&tls.ClientHelloInfo{}); err == nil {
			p.Pin = peers.PinOf(cert)
		}
	}
	return p
}

// name is this gateway's among those with the same store.
func (a *Server) name() string {
	if a.Config().Admin.Name != "" {
		return a.Config().Admin.Name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "gateway"
	}
	return host + "/" + strconv.Itoa(os.Getpid())
}
