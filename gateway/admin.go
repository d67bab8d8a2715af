package gateway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"antirobot/admin"
	"antirobot/captcha/outcomes"
	"antirobot/console"
	"antirobot/identity"
)

// openAdmin builds the private listener over the parts.
func (a *Server) openAdmin() (err error) {
	file := a.Config().Admin.TokenFile
	if file == "" {
		file = filepath.Join(a.Config().DataDir, "admin.token")
	}
	if a.Token, err = admin.LoadOrMakeToken(file); err != nil {
		return err
	}
	deps := admin.Deps{
		Token: a.Token, TLS: a.tlsOf(adminListener), Version: a.version, Started: a.began, Log: a.Logger("admin"), Metrics: a.set,
		Gateway: a, Bans: a.cacher, Passes: a.cacher, Decisions: a.cacher.Decisions(), Lists: a.lists, Counters: a.counters,
		Messages: &messageAPI{a: a}, Queue: a.queue, MessagesOpen: a.Config().MessagesOpen(), MaxMessage: a.Config().Message.MaxRequest, Sessions: a.proc,
		Challenges: a.challenges, Labels: a.proc, Attack: a.cacher, Alarms: a.alarms, TracePage: a.Config().Traces.Page,
	}
	if a.pushes != nil {
		deps.Pushes = a.pushes
	}
	if a.peers != nil {
		deps.Peers = a.peers
	}
	if a.proc.Learns() {
		deps.Training = a.proc
	}
	deps.Forget = func(s identity.Subject) (err error) {
		a.cacher.Forget(s)
		a.proc.Forget(s)
		if a.diary != nil {
			_, err = a.diary.Erase(s)
		}
		return err
	}
	if a.journal != nil {
		deps.Journal = a.journal
	}
	if a.admin, err = admin.New(a.Config().Admin, deps); err != nil {
		return err
	}
	return a.openConsole(deps.TLS != nil)
}

// openConsole puts the pages in front of the listener's API.
func (a *Server) openConsole(secure bool) error {
	d := console.Deps{API: a.admin, Secure: secure, OIDC: &a.Config().Admin.OIDC, Log: a.Logger("console")}
	if file := a.Config().Admin.OIDC.SecretFile; file != "" && d.OIDC.Issuer != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("admin.oidc.client_secret_file: %w", err)
		}
		d.Secret = strings.TrimSpace(string(text))
	}
	a.console = console.New(d)
	a.admin.Mount(a.console)
	return nil
}

// challenges is what became of the challenges of late.
func (a *Server) challenges() outcomes.Challenges {
	a.mu.Lock()
	c := a.captcha
	a.mu.Unlock()
	return c.Challenges()
}

// Services implements admin.Gateway.
func (a *Server) Services() []admin.ServiceStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []admin.ServiceStatus
	for i := range a.Config().Resolved {
		s := &a.Config().Resolved[i]
		d := admin.ServiceStatus{Name: s.Name, Hosts: s.Hosts, Mode: s.Verdict.Mode}
		for _, addr := range a.groups[s.Name].Healthy() {
			d.Upstreams = append(d.Upstreams, admin.Upstream{Address: addr.Addr, Healthy: addr.Up, Active: addr.Active})
		}
		out = append(out, d)
	}
	return out
}

// Store implements admin.Gateway.
func (a *Server) Store() admin.StoreHealth {
	h := admin.StoreHealth{Backend: a.store.name, Shared: a.store.Shared(), Healthy: true}
	if err := errors.Join(a.store.Healthy(), a.cacher.Health(), a.losses.Err()); err != nil {
		h.Healthy, h.Error = false, err.Error()
	}
	return h
}

// Ready is what /readyz checks in addition to the lists. The store is not part of it: the gateway continues without it,
// and /healthz says so.
func (a *Server) Ready() []admin.Check {
	c := admin.Check{Name: "listeners", OK: !a.draining.Load()}
	if !c.OK {
		c.Detail = "draining"
	}
	return []admin.Check{c}
}
