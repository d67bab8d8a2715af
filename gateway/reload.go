package gateway

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"antirobot/config"
	"antirobot/problem"
	"antirobot/proxy"
	"antirobot/proxy/extauthz"
)

// Reload reads the configuration, the keys, the models and the certificates again. All is prepared and checked before
// anything is put into use: on an error nothing has changed. restart names the keys whose new values wait for a restart.
func (a *Server) Reload(context.Context) (restart []string, err error) { return a.reload("api") }

func (a *Server) reload(why string) (restart []string, err error) {
	if a.reread == nil {
		return nil, errors.New("this gateway's configuration is not read again")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
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

// change is what a new configuration means for one part: prepare does all that can fail and changes nothing; the commit
// that it returns can't fail.
type change struct {
	of      string
	prepare func(next *config.Config) (commit func(), err error)
}

// changes are those of all parts, in the order in which they are put into use: what judges before what asks it.
func (a *Server) changes() []change {
	return []change{
		{"files", func(next *config.Config) (func(), error) { return func() {}, next.CheckFiles() }},
		{"certificates", a.prepareCertificates},
		{"keys", a.prepareKeys},
		{"lists", func(next *config.Config) (func(), error) { return at("lists")(a.lists.Prepare(next.Lists)) }},
		{"places", func(next *config.Config) (func(), error) { return at("geo")(a.places.Prepare(next.Geo)) }},
		{"identity", func(next *config.Config) (func(), error) { return at("identity")(a.resolver.Prepare(next.Identity)) }},
		{"models", a.prepareModels},
		{"messages", a.prepareMessages},
		{"services", a.prepareServices},
		{"http", a.prepareHTTP},
		{"check", a.prepareCheck},
	}
}

// at puts the section before the errors of its part.
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
	for _, commit := range commits {
		commit()
	}
	a.cfg.Store(next)
	setLogLevel(next.Log.Level)
	for _, w := range next.Warnings() {
		a.log.Warn().Msg(w)
	}
	return nil
}

func (a *Server) prepareKeys(next *config.Config) (func(), error) {
	ring, err := a.loadRing(next, false)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if ring.IsExample() && next.Enforces() {
		return nil, config.ErrExampleKey(next)
	}
	return a.keys.Prepare(ring)
}

func (a *Server) prepareModels(next *config.Config) (func(), error) {
	models, err := config.LoadModels(next.Formula)
	if err != nil {
		return nil, err
	}
	return a.formula.Prepare(models)
}

func (a *Server) prepareMessages(next *config.Config) (func(), error) {
	names, err := next.RuleNames()
	if err != nil {
		return nil, problem.At("formula", err)
	}
	return a.messages.Prepare(names.Formulas)
}

// prepareServices makes the next Snapshot: the captcha, the services and their connection pools.
func (a *Server) prepareServices(next *config.Config) (_ func(), err error) {
	pages, captcha := a.pages, a.captcha
	if !reflect.DeepEqual(next.Captcha, a.Config().Captcha) || next.Captcha.Templates != "" {
		if pages, captcha, err = a.newCaptcha(next); err != nil {
			return nil, problem.At("captcha", err)
		}
	}
	s, err := a.newServices(next, pages)
	if err != nil {
		return nil, err
	}
	know, err := a.proc.Prepare(s.Judged)
	if err != nil {
		return nil, err
	}
	carry, err := a.prepareStream(s)
	if err != nil {
		return nil, err
	}
	serve, err := a.gateway.Prepare(&proxy.Snapshot{Router: s.Router, Captcha: captcha, Unserved: s.Unserved})
	if err != nil {
		return nil, err
	}
	return func() {
		know()
		carry()
		a.pages, a.captcha = pages, captcha
		old := a.groups
		a.useGroups(s)
		a.indexes.trim(s.Judged)
		serve()
		a.retire(old)
	}, nil
}

func (a *Server) prepareHTTP(next *config.Config) (func(), error) {
	visitors, err := at("http")(a.server.Prepare(next.HTTP))
	if err != nil || a.checkServer == nil {
		return visitors, err
	}
	balancers, err := at("http")(a.checkServer.Prepare(next.HTTP))
	if err != nil {
		return nil, err
	}
	return func() { visitors(); balancers() }, nil
}

func (a *Server) prepareCheck(next *config.Config) (func(), error) {
	if a.check == nil {
		_, err := proxy.NewCheckRules(next.Check) // for the restart that would bring it
		return at("check")(func() {}, err)
	}
	commit, err := at("check")(a.check.Prepare(next.Check))
	if err != nil {
		return nil, err
	}
	all := []func(){commit}
	whole, bare := next.Check.ForExtAuthz(extauthz.Human, extauthz.BarePath)
	for _, one := range []struct {
		check *proxy.Check
		cfg   proxy.CheckConfig
	}{{a.spoeCheck, next.Check.ForSPOE()}, {a.envoyWhole, whole}, {a.envoyBare, bare}} {
		if one.check == nil {
			continue
		}
		other, err := at("check")(one.check.Prepare(one.cfg))
		if err != nil {
			return nil, err
		}
		all = append(all, other)
	}
	return func() {
		for _, one := range all {
			one()
		}
	}, nil
}
