package gateway

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/admin"
	"antirobot/identity"
	"antirobot/verdict/processor"
)

// openAdmin builds the private listener over the parts.
func (a *Server) openAdmin() (err error) {
	file := a.Cfg.Admin.TokenFile
	if file == "" {
		file = filepath.Join(a.Cfg.DataDir, "admin.token")
	}
	if a.Token, err = admin.LoadOrMakeToken(file); err != nil {
		return err
	}
	deps := admin.Deps{
		Version: a.version, Started: a.began, Sets: []*metrics.Set{a.set},
		Bans: a.cacher, Passes: a.cacher, Decisions: a.cacher.Decisions(), Lists: a.lists,
		Allowance: func(id [16]byte) (admin.Allowance, bool) {
			a, ok := a.cacher.Allowance(id)
			return admin.Allowance(a), ok
		},
		Session: func(s identity.Subject) any {
			if v, ok := a.proc.Session(s, time.Now()); ok {
				return v
			}
			return nil
		},
		Reload:   func(context.Context) ([]string, error) { return a.reload("api") },
		Services: a.describeServices, Store: a.describeStore, Ready: a.ready, Counters: a.counters,
		Messages: a.messagesForAdmin, MessagesOpen: a.Cfg.MessagesOpen(), MaxMessage: a.Cfg.Message.MaxRequest,
	}
	if a.proc.Learns() {
		deps.Events = a.exportEvents
	}
	a.admin, err = admin.New(a.Cfg.Admin, a.Token, deps, a.Logger("admin"), a.set)
	return err
}

// exportEvents writes the training log, with what is buffered.
func (a *Server) exportEvents(w io.Writer, unlabelled bool, since time.Time) error {
	_, err := a.proc.ExportTraining(w, processor.ExportOptions{Unlabelled: unlabelled, Since: since}, time.Now())
	return err
}

func (a *Server) describeServices() []admin.ServiceStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []admin.ServiceStatus
	for i := range a.Cfg.Resolved {
		s := &a.Cfg.Resolved[i]
		d := admin.ServiceStatus{Name: s.Name, Hosts: s.Hosts, Mode: s.Verdict.Mode}
		for _, addr := range a.groups[s.Name].Healthy() {
			d.Upstreams = append(d.Upstreams, admin.Upstream{Address: addr.Addr, Healthy: addr.Up, Active: addr.Active})
		}
		out = append(out, d)
	}
	return out
}

func (a *Server) describeStore() admin.StoreHealth {
	h := admin.StoreHealth{Backend: a.store.name, Shared: a.store.Shared(), Healthy: true}
	if err := errors.Join(a.store.Healthy(), a.cacher.Health(), a.losses.Err()); err != nil {
		h.Healthy, h.Error = false, err.Error()
	}
	return h
}

// ready is what /readyz asks for beside the lists. The store is not part of it: the gateway goes on without, and
// /healthz says so.
func (a *Server) ready() []admin.Check {
	c := admin.Check{Name: "listeners", OK: !a.draining.Load()}
	if !c.OK {
		c.Detail = "draining"
	}
	return []admin.Check{c}
}
