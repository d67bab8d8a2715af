package gateway

import (
	"context"
	"errors"

	"antirobot/config"
	"antirobot/problem"
)

// Reload reads the configuration, the keys, the models and the certificates again. Everything is prepared and checked
// before anything is put into use: after an error nothing has changed. restart names the keys that need a restart.
func (a *Server) Reload(context.Context) (restart []string, err error) { return a.reload("api") }

func (a *Server) reload(why string) (restart []string, err error) {
	if a.reread == nil {
		return nil, errors.New("this gateway's configuration is not read again")
	}
	a.reloading.Lock()
	defer a.reloading.Unlock()
	next, err := a.reread(a.pushedValues())
	if err != nil {
		return nil, err
	}
	restart = a.Config().NeedRestart(next)
	if err := a.apply(next, a.changes()); err != nil {
		return nil, err
	}
	a.log.Info().Str("by", why).Int("services", len(next.Resolved)).Strs("need_restart", restart).Msg("reloaded")
	a.logs.Flush()
	return restart, nil
}

// change is the reload of one part: prepare does all that can fail and changes nothing; the commit that it returns can't fail.
type change struct {
	of      string
	prepare func(next *config.Config) (commit func(), err error)
}

// changes are the changes of all parts, in the order of their commits: first what judges, then what uses it.
func (a *Server) changes() []change {
	j := a.judge
	return []change{
		{"files", func(next *config.Config) (func(), error) { return func() {}, next.CheckFiles() }},
		{"certificates", a.certs.prepare},
		{"keys", a.storage.prepareKeys},
		{"lists", func(next *config.Config) (func(), error) { return at("lists")(j.Lists.Prepare(next.Lists)) }},
		{"places", func(next *config.Config) (func(), error) { return at("geo")(j.places.Prepare(next.Geo)) }},
		{"identity", func(next *config.Config) (func(), error) { return at("identity")(j.Resolver.Prepare(next.Identity)) }},
		{"models", func(next *config.Config) (func(), error) {
			models, err := config.LoadModels(next.Formula)
			if err != nil {
				return nil, err
			}
			return func() { j.formula.Use(models) }, nil
		}},
		{"messages", a.messages.prepare},
		{"services", a.prepareServices},
		{"http", a.fronts.prepare},
		{"check", a.fronts.checks.prepare},
	}
}

func at(section string) func(commit func(), err error) (func(), error) {
	return func(commit func(), err error) (func(), error) {
		if err != nil {
			return nil, problem.At(section, err)
		}
		return commit, nil
	}
}

// prepare prepares all changes, and changes nothing itself.
func (a *Server) prepare(next *config.Config, changes []change) ([]func(), error) {
	a.Config().CarryOver(next)
	commits := make([]func(), 0, len(changes))
	for _, c := range changes {
		commit, err := c.prepare(next)
		if err != nil {
			return nil, err
		}
		commits = append(commits, commit)
	}
	return commits, nil
}

func (a *Server) apply(next *config.Config, changes []change) error {
	defer a.forgetGone()
	commits, err := a.prepare(next, changes)
	if err != nil {
		return err
	}
	commitAll(commits)()
	a.cfg.Store(next)
	setLogLevel(next.Log.Level)
	a.warn(next)
	return nil
}

// commitAll returns a commit that makes all commits, in order.
func commitAll(commits []func()) func() {
	return func() {
		for _, commit := range commits {
			commit()
		}
	}
}

// prepareServices makes the next Snapshot: the captcha, the services and their connection pools.
func (a *Server) prepareServices(cfg *config.Config) (func(), error) {
	next, err := a.judge.prepare(cfg)
	if err != nil {
		return nil, err
	}
	carry, err := a.link.prepare(next.services, a.judge)
	if err != nil {
		return nil, err
	}
	serve, err := a.proxy.Prepare(next.Snapshot())
	if err != nil {
		return nil, err
	}
	return commitAll([]func(){next.commit, carry, serve}), nil
}
