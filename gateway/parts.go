package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/config"
	"antirobot/identity"
	"antirobot/identity/geo"
	"antirobot/proxy"
	"antirobot/proxy/extauthz"
	"antirobot/proxy/h1"
	"antirobot/proxy/h2"
	"antirobot/proxy/h3"
	"antirobot/proxy/spoe"
	"antirobot/rules/requestrules"
	"antirobot/rules/sources"
	"antirobot/templates"
	"antirobot/verdict"
	"antirobot/verdict/formula"
	"antirobot/verdict/label"
	"antirobot/verdict/processor"
)

func (a *Server) openLists() (err error) {
	a.lists, err = cbb.New(a.Config().Lists, cbb.Deps{
		KV: a.store, Feed: a.store, Dir: filepath.Join(a.Config().DataDir, "lists"), Log: a.Logger("lists"), Metrics: a.set,
		Shared: a.store.Shared(), LocalLog: a.localLog("lists"), Losses: a.losses,
	})
	if err != nil {
		return err
	}
	return a.lists.Start(context.Background())
}

func (a *Server) openPlaces() (err error) {
	if a.places, err = geo.New(a.Config().Geo, geo.Deps{Log: a.Logger("geo"), Metrics: a.set}); err != nil {
		return err
	}
	return a.places.Start()
}

// openRules makes what runs the rules for requests.
func (a *Server) openRules() (err error) {
	a.requestRules, err = requestrules.New(a.Config().RequestRules, requestrules.Deps{
		Store: a.store, Counters: sources.NewCounters(a.counters, nil), Lists: a.lists, Places: a.places,
		Log: a.Logger("rules"), Metrics: a.set,
	})
	return err
}

func (a *Server) openVerdict() (err error) {
	a.cacher, err = verdict.New(a.Config().Verdict, verdict.Deps{
		Hash:   a.keys.Ring().HashKey(),
		Secret: rand.Uint64(),
		Store:  a.store, Lists: a.lists, Log: a.Logger("verdict"), Metrics: a.set,
		LocalLog: a.localLog("bans"), Losses: a.losses,
		Place:  func(addr netip.Addr) verdict.StoryPlace { return verdict.StoryPlace(a.places.Find(addr)) },
		Banned: a.banned, Part: a.part(),
	})
	if err != nil {
		return err
	}
	return a.cacher.Start(context.Background())
}

func (a *Server) openLabels() (err error) {
	if a.labels, err = label.New(a.Config().Labels, label.Deps{Store: a.store, Log: a.Logger("labels"), Metrics: a.set}); err != nil {
		return err
	}
	return a.labels.Start(context.Background())
}

func (a *Server) openProcessor() error {
	models, err := config.LoadModels(a.Config().Formula)
	if err != nil {
		return err
	}
	if a.formula, err = formula.NewLive(models, formula.Deps{Metrics: a.set}); err != nil {
		return err
	}
	d := processor.Deps{
		Secret: rand.Uint64(),
		Keeper: a.cacher, Formula: a.formula, Training: config.TrainingDir(a.Config().DataDir), Labels: a.labels,
		Log: a.Logger("processor"), Metrics: a.set,
	}
	a.turns = proxy.NewTurns(a.Config().Role != config.RoleAll)
	d.Judged = a.turns.Judged
	if a.diary != nil {
		d.Judged, d.Waits = func(e *verdict.Event) { a.turns.Judged(e); a.diary.Add(e) }, true
	}
	a.proc, err = processor.New(a.Config().Processor, d)
	if err != nil {
		return err
	}
	return a.proc.Start(context.Background())
}

func (a *Server) openIdentity() (err error) {
	a.resolver, err = identity.New(a.Config().Identity, identity.Deps{
		Keys: a.keys, Revocations: a.cacher, Visitors: a.cacher, Store: a.store, Now: a.store.Now, Log: a.Logger("identity"), Metrics: a.set,
	})
	if err != nil {
		return err
	}
	return a.resolver.Start(context.Background())
}

func (a *Server) openCaptcha() (err error) {
	a.pages, a.captcha, err = a.newCaptcha(a.Config())
	if err != nil || a.Config().Role == config.RoleProcessor {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var shares sync.WaitGroup
	own := a.captcha // a reload passes its memory on
	shares.Go(func() { own.Share(ctx) })
	a.sharing = func() { cancel(); shares.Wait() }
	return nil
}

func (a *Server) closeCaptcha() error {
	if a.sharing != nil {
		a.sharing()
	}
	return nil
}

// newCaptcha builds what makes and checks challenges, with the pages of the configured directory over the built-in ones.
func (a *Server) newCaptcha(cfg *config.Config) (*templates.Set, *captcha.Captcha, error) {
	pages, err := LoadPages(cfg)
	if err != nil {
		return nil, nil, err
	}
	c, err := captcha.New(cfg.Captcha, captcha.Deps{
		Keys: a.keys, Store: a.store, Visitors: a.cacher, Manners: manners{a.proc, a.cacher}, Now: a.store.Now, Log: a.Logger("captcha"), Metrics: a.set, Previous: a.captcha,
		Revoke: func(net netip.Prefix, agent uint64, at time.Time) error {
			ctx, cancel := context.WithTimeout(context.Background(), cfg.Captcha.StoreTimeout)
			defer cancel()
			return a.cacher.RevokeCampaign(ctx, net, agent, at)
		},
	})
	return pages, c, err
}

// manners is how people read, by what this process has judged and by what processors tell.
type manners struct {
	proc   *processor.Processor
	cacher *verdict.Cacher
}

// Bareness implements captcha.Manners.
func (m manners) Bareness(service string, a netip.Addr) float64 {
	return max(m.proc.Bareness(service, a), m.cacher.Bareness(service, a))
}

// LoadPages reads the pages and catalogues, with those of the configured directory over the built-in ones.
func LoadPages(cfg *config.Config) (*templates.Set, error) {
	var override fs.FS
	if dir := cfg.Captcha.Templates; dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("captcha.templates: %w", err)
		}
		override = os.DirFS(dir)
	}
	pages, err := templates.New(override)
	if err != nil {
		return nil, fmt.Errorf("captcha.templates: %w", err)
	}
	return pages, nil
}

func (a *Server) openGateway() error {
	s, err := a.newServices(a.Config(), a.pages)
	if err != nil {
		return err
	}
	know, err := a.proc.Prepare(s.Judged)
	if err != nil {
		return err
	}
	carry, err := a.prepareStream(s)
	if err != nil {
		return err
	}
	deps := proxy.Deps{
		Resolver: a.resolver, Decider: a.cacher, Messages: a.messages, Queue: a.queue, Seconds: a.seconds, Log: a.Logger("gateway"), Metrics: a.set,
		Hash: a.keys.Ring().HashKey(),
	}
	if a.journal != nil {
		deps.Journal = a.journal
	}
	deps.Traces = a.traces
	if a.Config().Processor.Enabled {
		deps.Sink, deps.Turns, deps.Spared = a.sink(), a.turns, a.proc.Spares
		deps.Crawlers = a.proc.Learns()
	}
	deps.DecisionLines, deps.AccessLines = a.Config().Log.DecisionLines, a.Config().Log.AccessLines
	deps.AccessFields = a.Config().Log.AccessFields
	if a.Config().Log.Access {
		access := a.Logger("access")
		deps.Access = &access
	}
	if a.gateway, err = proxy.New(&proxy.Snapshot{Router: s.Router, Captcha: a.captcha, Unserved: s.Unserved}, deps); err != nil {
		return err
	}
	know()
	carry()
	a.useGroups(s)
	return nil
}

func (a *Server) closeGroups() error {
	var errs []error
	for _, g := range a.groups {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

func (a *Server) openVisitors() (err error) {
	a.server, err = h1.NewServer(a.Config().HTTP, h1.Deps{Handler: a.gateway, Refuser: a.gateway, Log: a.Logger("http"), Metrics: a.set})
	if err != nil {
		return err
	}
	if a.Config().HTTP2.Enabled {
		a.http2, err = h2.New(a.Config().HTTP2, h2.Deps{Front: a.server, Metrics: a.set})
	}
	if err == nil && slices.ContainsFunc(a.Config().Listen, func(l config.Listener) bool { return l.HTTP3 }) {
		d := h3.Deps{Front: a.server, Log: a.Logger("http3"), Metrics: a.set}
		node, _ := os.Hostname() // without one it has no name
		d.ResetKey, d.TokenKey = a.keys.Ring().QUICKeys(node)
		a.http3, err = h3.New(a.Config().HTTP3, d)
	}
	return err
}

func (a *Server) closeVisitors() error {
	err := a.server.Close()
	if a.http3 != nil {
		err = errors.Join(err, a.http3.Close())
	}
	return err
}

// openCheck builds check mode on top of the gateway, with a separate server: balancers are not visitors.
func (a *Server) openCheck() (err error) {
	if len(a.Config().Check.Listen) == 0 {
		return nil
	}
	if a.check, err = proxy.NewCheck(a.Config().Check, a.gateway); err != nil {
		return err
	}
	a.checkServer, err = h1.NewServer(a.Config().HTTP, h1.Deps{Handler: a.check, Refuser: a.gateway, Log: a.Logger("check"), Metrics: a.set})
	if err == nil && len(a.Config().Check.SPOE) > 0 {
		err = a.openSPOE()
	}
	if err == nil && len(a.Config().Check.GRPC) > 0 {
		err = a.openExtAuthz()
	}
	return err
}

// openExtAuthz builds the checks that Envoy asks over gRPC.
func (a *Server) openExtAuthz() (err error) {
	whole, bare := a.Config().Check.ForExtAuthz(extauthz.Human, extauthz.BarePath)
	d := extauthz.Deps{Log: a.Logger("ext_authz"), Metrics: a.set}
	for _, one := range []struct {
		cfg   proxy.CheckConfig
		check **proxy.Check
		front **h1.Server
	}{{whole, &a.envoyWhole, &d.Whole}, {bare, &a.envoyBare, &d.Bare}} {
		if *one.check, err = proxy.NewCheck(one.cfg, a.gateway); err != nil {
			return err
		}
		if *one.front, err = h1.NewServer(a.Config().HTTP, h1.Deps{Handler: *one.check, Refuser: a.gateway, Log: d.Log, Metrics: a.set}); err != nil {
			return err
		}
	}
	d.Trusted, d.SecretField = a.envoyWhole, a.envoyWhole.SecretField
	a.envoy = extauthz.New(d)
	return nil
}

// openSPOE builds the check that HAProxy asks over its own protocol.
func (a *Server) openSPOE() (err error) {
	if a.spoeCheck, err = proxy.NewCheck(a.Config().Check.ForSPOE(), a.gateway); err != nil {
		return err
	}
	front, err := h1.NewServer(a.Config().HTTP, h1.Deps{Handler: a.spoeCheck, Refuser: a.gateway, Log: a.Logger("spoe"), Metrics: a.set})
	if err != nil {
		return err
	}
	a.spoe = spoe.New(spoe.Deps{Front: front, Trusted: a.spoeCheck, Log: a.Logger("spoe"), Metrics: a.set})
	return nil
}

func (a *Server) closeCheck() error {
	if a.checkServer == nil {
		return nil
	}
	var errs []error
	if a.spoe != nil {
		errs = append(errs, a.spoe.Close())
	}
	if a.envoy != nil {
		errs = append(errs, a.envoy.Close())
	}
	return errors.Join(append(errs, a.checkServer.Close())...)
}
