package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"antirobot/admin"
	"antirobot/admin/peers"
	"antirobot/alarm"
	"antirobot/captcha/outcomes"
	"antirobot/console"
	"antirobot/identity"
	"antirobot/message"
	"antirobot/problem"
	"antirobot/spravka"
)

// openAdmin builds the private listener over the parts, and the console in front of its API.
func (a *Server) openAdmin() (err error) {
	cfg := &a.Config().Admin
	file := cfg.TokenFile
	if file == "" {
		file = a.inDataDir("admin.token")
	}
	if a.Token, err = admin.LoadOrMakeToken(file); err != nil {
		return err
	}
	proc, cacher, status := a.judge.Processors[0], a.judge.Cacher, status{a}
	d := admin.Deps{
		Token: a.Token, TLS: a.certs.tlsOf(adminListener), Version: a.version, Started: a.began, Log: a.Logger("admin"), Metrics: a.set,
		Gateway: status, Bans: cacher, Passes: cacher, Decisions: cacher.Decisions(), Lists: a.judge.Lists, Counters: a.judge.counters,
		Messages: &a.messages, Queue: a.messages.queue, MessagesOpen: a.Config().MessagesOpen(), MaxMessage: message.MaxRequest,
		Sessions: proc, Challenges: status.challenges, Labels: proc, Learning: a.judge.learner, Attack: cacher, Alarms: a.alarms, TracePage: a.Config().Traces.Page,
		Forget: func(ctx context.Context, s identity.Subject) error {
			err := a.judge.forgetSubject(ctx, s)
			if a.link.restartLog != nil {
				_, e := a.link.restartLog.Erase(s)
				err = errors.Join(err, e)
			}
			return err
		},
	}
	if a.pushes != nil {
		d.Pushes = a.pushes
	}
	if a.peers != nil {
		d.Peers = a.peers
	}
	if proc.Learns() {
		d.Training = proc
	}
	if a.figures.journal != nil {
		d.Journal = a.figures.journal
	}
	if a.admin, err = admin.New(*cfg, d); err != nil {
		return err
	}
	c := console.Deps{API: a.admin, Secure: d.TLS != nil, OIDC: &cfg.OIDC, URL: cfg.URL, Log: a.Logger("console")}
	if file := cfg.OIDC.SecretFile; file != "" && cfg.OIDC.Issuer != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("admin.oidc.client_secret_file: %w", err)
		}
		c.Secret = strings.TrimSpace(string(text))
	}
	a.console = console.New(c)
	a.admin.Mount(a.console)
	return nil
}

// status is the gateway as a whole, as the private listener and the alarms see it. It implements admin.Gateway.
type status struct{ a *Server }

// Reload implements admin.Gateway.
func (s status) Reload(ctx context.Context) ([]string, error) { return s.a.Reload(ctx) }

// Backup implements admin.Gateway.
func (s status) Backup(dir string) error { return s.a.Backup(dir) }

// Stream implements admin.Gateway.
func (s status) Stream() *admin.StreamHealth { return s.a.link.health() }

// Certificates implements admin.Gateway.
func (s status) Certificates() []string { return s.a.certs.problems() }

// Services implements admin.Gateway.
func (s status) Services() []admin.ServiceStatus {
	cfg, addresses := s.a.Config(), s.a.judge.addresses()
	var out []admin.ServiceStatus
	for i := range cfg.Resolved {
		x := &cfg.Resolved[i]
		d := admin.ServiceStatus{Name: x.Name, Hosts: x.Hosts, Mode: x.Verdict.Mode}
		for _, addr := range addresses[x.Name] {
			d.Upstreams = append(d.Upstreams, admin.Upstream{Address: addr.Addr, Healthy: addr.Up, Active: addr.Active})
		}
		out = append(out, d)
	}
	return out
}

// Store implements admin.Gateway.
func (s status) Store() admin.StoreHealth {
	b := s.a.storage.store
	h := admin.StoreHealth{Backend: b.name, Shared: b.Shared(), Healthy: true}
	if err := errors.Join(b.Healthy(), s.a.judge.Cacher.Health(), s.a.storage.losses.Err()); err != nil {
		h.Healthy, h.Error = false, err.Error()
	}
	return h
}

// Ready implements admin.Gateway. The store is not part of it: the gateway continues without it, and /healthz reports it.
func (s status) Ready() []admin.Check {
	c := admin.Check{Name: "listeners", OK: !s.a.fronts.draining.Load()}
	if !c.OK {
		c.Detail = "draining"
	}
	return []admin.Check{c}
}

// challenges returns the outcomes of recent challenges.
func (s status) challenges() outcomes.Challenges { return s.a.judge.Captcha().Challenges() }

// The spans of time whose requests the alarms compare.
const (
	late   = 30 * time.Minute
	before = 24 * time.Hour
)

// sight is what the alarms watch.
func (s status) sight(at time.Time) alarm.Sight {
	a := s.a
	counts := a.figures.counts()
	x := alarm.Sight{Obtaining: s.Certificates(), Store: s.Store().Error, Shed: counts["shed"] + counts["journal-shed"]}
	c := s.challenges()
	x.Machines = c.MachinesSolve
	for i := range c.Networks {
		x.Networks = append(x.Networks, alarm.Network{Tried: c.Networks[i].Tried, Solved: c.Networks[i].Solved})
	}
	for _, l := range a.judge.Lists.Stats().Lists {
		if l.LastError != "" {
			x.Lists = append(x.Lists, alarm.List{Name: l.Name, Age: l.Age})
		}
	}
	for _, v := range s.Services() {
		for _, u := range v.Upstreams {
			if !u.Healthy {
				x.Away = append(x.Away, v.Name+" "+u.Address)
			}
		}
	}
	for _, f := range a.certs.files {
		for name, until := range f.Ends() {
			x.Certificates = append(x.Certificates, alarm.Certificate{Name: name, Until: until})
		}
	}
	if a.figures.journal != nil {
		x.Late = a.figures.share("minute", at.Add(-late), at)
		x.Before = a.figures.share("hour", at.Add(-late-before), at.Add(-late))
	}
	return x
}

// openAlarms starts the watch over the other parts.
func (a *Server) openAlarms() (err error) {
	a.alarms, err = alarm.New(a.Config().Alarms, alarm.Deps{Look: status{a}.sight, Log: a.Logger("alarms"), Metrics: a.set})
	if err != nil {
		return problem.At("alarms", err)
	}
	a.alarms.Start()
	return nil
}

// askTimeout is how long the console waits for the other gateways.
const askTimeout = 3 * time.Second

// openPeers prepares for asking the other gateways, if there can be any.
func (a *Server) openPeers() error {
	if !a.storage.store.Shared() || a.Config().Admin.Listen == "" {
		return nil
	}
	a.peers = peers.New(peers.Deps{
		KV: a.storage.store, Ring: func() *spravka.Ring { return a.storage.keys.Ring() }, Self: a.self,
		Timeout: askTimeout, Now: a.storage.store.Now, Log: a.Logger("peers"),
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
	p := peers.Peer{Name: a.name(), Version: a.version, Address: a.Config().Admin.Reached(a.AdminAddr())}
	if a.pushes != nil {
		p.Config = a.pushes.state().Version
	}
	for _, f := range a.certs.files {
		if f.listener != adminListener || p.Address == "" {
			continue
		}
		if cert, err := f.Config().GetCertificate(&tls.ClientHelloInfo{}); err == nil {
			p.Pin = peers.PinOf(cert)
		}
	}
	return p
}

// name is this gateway's name among those with the same store.
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
