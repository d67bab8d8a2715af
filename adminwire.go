package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/admin"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/verdict"
)

// openAdmin builds the private listener over the parts.
func (a *app) openAdmin() (err error) {
	file := a.cfg.Admin.TokenFile
	if file == "" {
		file = filepath.Join(a.cfg.DataDir, "admin.token")
	}
	if a.token, err = admin.LoadOrMakeToken(file); err != nil {
		return err
	}
	deps := admin.Deps{
		Version: version, Started: a.began, Sets: []*metrics.Set{a.set},
		Bans: bans{a}, Lists: lists{a}, Passes: passes{a}, Decisions: decisions{a}, Subjects: subjects{a},
		Reload:   func(context.Context) error { return a.reload("api") },
		Services: a.describeServices, Store: a.describeStore, Ready: a.ready,
	}
	a.admin, err = admin.New(a.cfg.Admin, a.token, deps, a.part("admin"), a.set)
	return err
}

// bans is admin.Bans over the Cacher.
type bans struct{ *app }

func (b bans) Ban(ctx context.Context, in admin.Ban) (admin.Ban, error) {
	subject, err := identity.ParseSubject(in.Subject)
	if err != nil {
		return in, admin.Invalid("subject", "%v", err)
	}
	if in.Service != "" && !b.hasService(in.Service) {
		return in, admin.Invalid("service", "there is no service %q", in.Service)
	}
	ban := verdict.Ban{Subject: subject, Until: in.Until, Made: time.Now(), Service: in.Service, Source: verdict.SourceAPI, Reason: in.Reason}
	if err := b.cacher.Ban(ctx, ban); err != nil {
		if errors.Is(err, verdict.ErrFull) {
			return in, admin.Full("%v", err)
		}
		return in, err
	}
	return describeBan(&ban), nil
}

func (b bans) Lift(ctx context.Context, subject, service string) (bool, error) {
	s, err := identity.ParseSubject(subject)
	if err != nil {
		return false, admin.Invalid("subject", "%v", err)
	}
	n, err := b.cacher.Unban(ctx, s, service)
	return n > 0, err
}

func (b bans) EachBan(f func(admin.Ban) bool) {
	for _, ban := range b.cacher.Bans(verdict.BanFilter{}) {
		if !f(describeBan(&ban)) {
			return
		}
	}
}

func describeBan(b *verdict.Ban) admin.Ban {
	out := admin.Ban{
		Subject: b.Subject.String(), Service: b.Service, Source: b.Source.String(), Reason: b.Reason, Made: b.Made.UTC(),
		Until: b.Until.UTC(), Score: float64(b.Score), Model: b.Model,
	}
	for _, f := range b.Factors {
		if f.Name != "" {
			out.Factors = append(out.Factors, fmt.Sprintf("%s=%.4g", f.Name, f.Value))
		}
	}
	return out
}

// lists is admin.Lists over the block base.
type lists struct{ *app }

func (l lists) Add(ctx context.Context, list string, e admin.Entry) (admin.Entry, error) {
	flag, err := cbb.ParseFlag(list)
	if err != nil {
		return e, admin.Invalid("list", "%v", err)
	}
	var ttl time.Duration
	if !e.Until.IsZero() {
		ttl = time.Until(e.Until)
	}
	if err := l.lists.Add(ctx, flag, e.Entry, ttl, e.Reason, ""); err != nil {
		if errors.Is(err, cbb.ErrBadEntry) {
			return e, admin.Invalid("entry", "%v", err)
		}
		return e, err
	}
	e.Made = time.Now().UTC()
	return e, nil
}

func (l lists) Remove(ctx context.Context, list, entry string) (bool, error) {
	flag, err := cbb.ParseFlag(list)
	if err != nil {
		return false, admin.Invalid("list", "%v", err)
	}
	err = l.lists.Remove(ctx, flag, entry, "")
	if errors.Is(err, cbb.ErrNoEntry) {
		return false, nil
	}
	return err == nil, err
}

func (l lists) EachEntry(list string, f func(admin.Entry) bool) {
	flag, err := cbb.ParseFlag(list)
	if err != nil {
		return
	}
	for _, e := range l.lists.List(flag) {
		if !f(admin.Entry{Entry: e.Text, Reason: e.Reason, Until: e.Until}) {
			return
		}
	}
}

func (l lists) Sources() []admin.Source {
	var out []admin.Source
	for _, s := range l.lists.Stats().Lists {
		loaded := s.Checked
		if loaded.IsZero() {
			loaded = s.Fetched
		}
		out = append(out, admin.Source{
			Name: s.Name, Flag: s.Flag, From: s.Kind, Entries: s.Entries, Skipped: s.Bad, Loaded: loaded, Copy: s.FromDisk, Error: s.LastError,
		})
	}
	return out
}

// passes is admin.Passes over the Cacher.
type passes struct{ *app }

func (p passes) Revoke(ctx context.Context, id [16]byte) error {
	return p.cacher.RevokePass(ctx, id, p.cfg.Captcha.Pass.Lifetime)
}

func (p passes) RevokeBefore(ctx context.Context, t time.Time) error {
	if t.After(time.Now()) {
		return admin.Invalid("before", "%s is in the future", t.Format(time.RFC3339))
	}
	return p.cacher.RevokePassesBornBefore(ctx, t)
}

// decisions is admin.Decisions over the recent ones.
type decisions struct{ *app }

func (d decisions) Decision(requestID string) (any, bool) {
	id, ok := verdict.ParseRequestID(requestID)
	if !ok {
		return nil, false
	}
	story, ok := d.cacher.Decisions().Get(id)
	return story, ok
}

// subjects is admin.Subjects over the Cacher.
type subjects struct{ *app }

func (s subjects) Subject(_ context.Context, text string) (admin.SubjectInfo, error) {
	subject, err := identity.ParseSubject(text)
	if err != nil {
		return admin.SubjectInfo{}, admin.Invalid("subject", "%v", err)
	}
	info := admin.SubjectInfo{Subject: subject.String(), Bans: []admin.Ban{}}
	for _, b := range s.cacher.Bans(verdict.BanFilter{Subject: subject}) {
		info.Bans = append(info.Bans, describeBan(&b))
	}
	return info, nil
}

func (a *app) hasService(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.cfg.resolved {
		if a.cfg.resolved[i].Name == name {
			return true
		}
	}
	return false
}

func (a *app) describeServices() []admin.Service {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []admin.Service
	for i := range a.cfg.resolved {
		s := &a.cfg.resolved[i]
		d := admin.Service{Name: s.Name, Hosts: s.Hosts, Mode: s.Verdict.Mode}
		for _, addr := range a.groups[s.Name].Healthy() {
			d.Upstreams = append(d.Upstreams, admin.Upstream{Address: addr.Addr, Healthy: addr.Up, Active: addr.Active})
		}
		out = append(out, d)
	}
	return out
}

func (a *app) describeStore() admin.StoreHealth {
	h := admin.StoreHealth{Backend: "pebble", Shared: a.store.Shared(), Healthy: true}
	if err := errors.Join(a.store.Healthy(), a.cacher.Health()); err != nil {
		h.Healthy, h.Error = false, err.Error()
	}
	return h
}

// ready is what /readyz asks for. The store is not part of it: the gateway goes on without, and says so in /healthz.
func (a *app) ready() []admin.Check {
	checks := []admin.Check{
		{Name: "config", OK: true},
		{Name: "listeners", OK: !a.draining.Load(), Detail: map[bool]string{true: "draining"}[a.draining.Load()]},
	}
	loaded := admin.Check{Name: "lists", OK: true}
	for _, s := range a.lists.Stats().Lists {
		if !s.Loaded {
			loaded.OK = false
			loaded.Detail += s.Name + " has no copy yet; "
		}
	}
	return append(checks, loaded)
}
