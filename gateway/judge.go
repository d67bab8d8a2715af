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
	"reflect"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/config"
	"antirobot/identity"
	"antirobot/identity/geo"
	"antirobot/problem"
	"antirobot/proxy"
	"antirobot/proxy/upstream"
	"antirobot/rules/requestrules"
	"antirobot/rules/sources"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/stream"
	"antirobot/templates"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/counter"
	"antirobot/verdict/formula"
	"antirobot/verdict/label"
	"antirobot/verdict/learn"
	"antirobot/verdict/processor"
)

// Judge is everything that decides: lists, rules, identity, bans, the processor and the captcha, with the services of a
// configuration. A Server has one, and a replay runs recorded traffic through one.
type Judge struct {
	Lists      *cbb.Lists
	Resolver   *identity.Resolver
	Cacher     *verdict.Cacher
	Processors []*processor.Processor // one, except in a replay; each judges its share of the partitions

	d          JudgeDeps
	live       *live          // nil: a replay
	cfg        *config.Config // in force; changes with a reload
	opened     parts
	counters   *counter.Shingler
	places     *geo.Places
	rules      *requestrules.Engine
	labels     *label.Table     // nil in a replay
	learner    *learn.Collector // nil in a replay
	formula    *formula.Live
	partitions int
	sharing    context.CancelFunc // ends the exchange of answers with other gateways, and waits for it

	indexes     indexes
	retireAfter time.Duration // retireAfter, except in tests

	mu      sync.Mutex // guards what follows, which a reload replaces
	pages   *templates.Set
	captcha *captcha.Captcha
	groups  map[string]*upstream.Group // connection pools by service

	snapshot *proxy.Snapshot // of a replay
}

// JudgeDeps is what a Judge is built with.
type JudgeDeps struct {
	Store    store.Store
	Counters store.Counters
	Keys     *spravka.Keys
	Log      func(part string) zerolog.Logger
	Metrics  *metrics.Set

	// The following are for replays.

	Now      func() time.Time   // nil: time.Now
	Observer processor.Observer // is told about each evaluation; nil: none
	// Processors is how many processes the judgement is divided among, by network; 0 is 1.
	Processors int
}

// live is what only the judge of a running gateway has.
type live struct {
	part     verdict.Part
	losses   *store.Losses // nil: the store is not shared
	localLog func(of string) string
	banned   func(*bans.Ban)
	judged   func(*verdict.Event)
	waits    bool // the workers begin when Recall has ended
}

// NewJudge makes a Judge for recorded traffic: it fetches nothing, forwards nothing, runs nothing in the background and
// gives the same result each time. Close it after use.
func NewJudge(cfg *config.Config, d JudgeDeps) (*Judge, error) {
	j, err := newJudge(cfg, d, nil)
	if err != nil {
		return nil, err
	}
	next, err := j.prepare(cfg)
	if err != nil {
		_ = j.Close()
		return nil, err
	}
	next.commit()
	j.snapshot = next.Snapshot()
	return j, nil
}

// Snapshot returns the services and the captcha of a replay.
func (j *Judge) Snapshot() *proxy.Snapshot { return j.snapshot }

// newJudge makes a Judge without services, which prepare makes.
func newJudge(cfg *config.Config, d JudgeDeps, l *live) (*Judge, error) {
	j := &Judge{d: d, live: l, cfg: cfg, groups: map[string]*upstream.Group{}, retireAfter: retireAfter}
	if j.d.Now == nil {
		j.d.Now = time.Now
	}
	err := j.opened.open(
		part{"counters", j.openCounters, func() error { return j.counters.Close() }},
		part{"lists", j.openLists, j.stop(func() error { return j.Lists.Close() })},
		part{"places", j.openPlaces, j.stop(func() error { return j.places.Close() })},
		part{"rules", j.openRules, nil},
		part{"verdict", j.openVerdict, func() error { return j.Cacher.Close() }},
		part{"identity", j.openIdentity, j.stop(func() error { return j.Resolver.Close() })},
		part{"labels", j.openLabels, j.stop(func() error { return j.labels.Close() })},
		part{"learning", j.openLearner, j.stop(func() error { return j.learner.Close() })},
		part{"processor", j.openProcessors, j.closeProcessors},
		part{"captcha", j.openCaptcha, j.closeCaptcha},
		part{"services", func() error { return nil }, j.closeGroups},
	)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// Close closes the parts in reverse order, and writes out pending data.
func (j *Judge) Close() error { return j.opened.close() }

// start starts what runs in the background, in a running gateway.
func (j *Judge) start(x interface {
	Start(ctx context.Context) error
},
) error {
	if j.live == nil {
		return nil
	}
	return x.Start(context.Background())
}

// stop is how a part is closed that start has started.
func (j *Judge) stop(closing func() error) func() error {
	if j.live == nil {
		return nil
	}
	return closing
}

// sealTime is the present by the clock that all gateways share: what they seal for each other goes by it.
func (j *Judge) sealTime() time.Time { return store.Time(j.d.Store, j.d.Now()) }

func (j *Judge) openCounters() (err error) {
	j.counters, err = counter.New(j.cfg.Counters, counter.Deps{
		Store: j.d.Counters, Now: j.d.Now, Log: j.d.Log("counters"), Metrics: j.d.Metrics,
	})
	if err != nil {
		return err
	}
	return j.counters.Start(context.Background())
}

func (j *Judge) openLists() (err error) {
	cfg := j.cfg.Lists
	d := cbb.Deps{
		KV: j.d.Store, Feed: j.d.Store, Dir: filepath.Join(j.cfg.DataDir, "lists"), Now: j.d.Now, Log: j.d.Log("lists"),
		Metrics: j.d.Metrics, Shared: j.d.Store.Shared(),
	}
	if j.live != nil {
		d.LocalLog, d.Losses = j.live.localLog("lists"), j.live.losses
	} else {
		cfg.Crawlers.ProvisionalRequests = 0 // DNS is not asked: no crawler gets the benefit of the doubt meanwhile
		d.ReadOnly = true                    // the directory may belong to a gateway that runs
		if _, err := os.Stat(d.Dir); err != nil {
			d.Dir = ""
		}
	}
	if j.Lists, err = cbb.New(cfg, d); err != nil {
		return err
	}
	return j.start(j.Lists)
}

func (j *Judge) openPlaces() (err error) {
	if j.places, err = geo.New(j.cfg.Geo, geo.Deps{Log: j.d.Log("geo"), Metrics: j.d.Metrics}); err != nil || j.live == nil {
		return err
	}
	return j.places.Start()
}

func (j *Judge) openRules() error {
	j.rules = requestrules.New(requestrules.Deps{
		Store: j.d.Store, Counters: sources.NewCounters(j.counters, j.d.Now), Lists: j.Lists, Places: j.places,
		Now: j.d.Now, Log: j.d.Log("rules"), Metrics: j.d.Metrics,
	})
	return nil
}

func (j *Judge) openVerdict() (err error) {
	d := verdict.Deps{Store: j.d.Store, Lists: j.Lists, Now: j.d.Now, Log: j.d.Log("verdict"), Metrics: j.d.Metrics}
	if j.live != nil {
		d.Hash = j.d.Keys.Ring().HashKey()
		d.LocalLog, d.Losses, d.Banned, d.Part = j.live.localLog("bans"), j.live.losses, j.live.banned, j.live.part
		d.Place = func(addr netip.Addr) verdict.StoryPlace { return verdict.StoryPlace(j.places.Find(addr)) }
	}
	if j.Cacher, err = verdict.New(j.cfg.Verdict, d); err != nil {
		return err
	}
	return j.Cacher.Start(context.Background())
}

func (j *Judge) openLabels() (err error) {
	if j.live == nil {
		return nil
	}
	j.labels, err = label.New(j.cfg.Labels, label.Deps{Store: j.d.Store, Log: j.d.Log("labels"), Metrics: j.d.Metrics})
	if err != nil {
		return err
	}
	return j.start(j.labels)
}

func (j *Judge) openLearner() (err error) {
	if j.live == nil {
		return nil
	}
	j.learner, err = learn.New(learn.Deps{
		Names: processor.FactorNames(), Store: j.d.Store, Log: j.d.Log("learning"), Metrics: j.d.Metrics,
	})
	if err != nil {
		return err
	}
	return j.start(j.learner)
}

func (j *Judge) openProcessors() error {
	models, err := config.LoadModels(j.cfg.Formula)
	if err != nil {
		return err
	}
	j.formula = formula.NewLive(models, formula.Deps{Metrics: j.d.Metrics})
	d := processor.Deps{
		Keeper: j.Cacher, Formula: j.formula, Labels: j.labels, Learner: j.learner, Observer: j.d.Observer, Log: j.d.Log("processor"), Metrics: j.d.Metrics,
	}
	if j.live != nil {
		d.Secret, d.Training = rand.Uint64(), config.TrainingDir(j.cfg.DataDir)
		d.Judged, d.Waits = j.live.judged, j.live.waits
	}
	j.partitions = j.cfg.Stream.Partitions
	for range min(max(j.d.Processors, 1), j.partitions) {
		p, err := processor.New(j.cfg.Processor, d)
		if err != nil {
			return err
		}
		j.Processors = append(j.Processors, p)
		d.Metrics = metrics.NewSet() // each has gauges of the same names
	}
	return j.start(j.Processors[0])
}

func (j *Judge) closeProcessors() error {
	var errs []error
	for _, p := range j.Processors {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Processor returns the one that judges the events of an address, given by the ID of its Subject.
func (j *Judge) Processor(addr [16]byte) *processor.Processor {
	if len(j.Processors) == 1 {
		return j.Processors[0]
	}
	return j.Processors[stream.Partition(addr, j.partitions)%len(j.Processors)]
}

func (j *Judge) openIdentity() (err error) {
	d := identity.Deps{
		Keys: j.d.Keys, Revocations: j.Cacher, Visitors: j.Cacher, Now: j.sealTime, Log: j.d.Log("identity"), Metrics: j.d.Metrics,
	}
	if j.live != nil {
		d.Store = j.d.Store
	} else {
		d.TokenCache = 4 << 20 // a log has no cookies to open
	}
	if j.Resolver, err = identity.New(j.cfg.Identity, d); err != nil {
		return err
	}
	return j.start(j.Resolver)
}

func (j *Judge) openCaptcha() (err error) {
	if j.pages, j.captcha, err = j.newCaptcha(j.cfg, nil); err != nil || j.live == nil || j.live.part == verdict.PartProcessor {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var shares sync.WaitGroup
	own := j.captcha // a reload passes its memory on
	shares.Go(func() { own.Share(ctx) })
	j.sharing = func() { cancel(); shares.Wait() }
	return nil
}

func (j *Judge) closeCaptcha() error {
	if j.sharing != nil {
		j.sharing()
	}
	return nil
}

// newCaptcha builds what makes and checks challenges, with the pages of the configured directory over the built-in ones.
func (j *Judge) newCaptcha(cfg *config.Config, previous *captcha.Captcha) (*templates.Set, *captcha.Captcha, error) {
	pages, err := loadPages(cfg)
	if err != nil {
		return nil, nil, err
	}
	d := captcha.Deps{
		Keys: j.d.Keys, Store: j.d.Store, Visitors: j.Cacher, Now: j.sealTime, Log: j.d.Log("captcha"),
		Metrics: j.d.Metrics, Previous: previous,
	}
	if j.live != nil {
		d.Revoke = func(net netip.Prefix, agent uint64, at time.Time) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return j.Cacher.RevokeCampaign(ctx, net, agent, at)
		}
	}
	c, err := captcha.New(cfg.Captcha, d)
	return pages, c, err
}

// loadPages reads the pages and catalogues, with those of the configured directory over the built-in ones.
func loadPages(cfg *config.Config) (*templates.Set, error) {
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

// prepared are the captcha and the services of a configuration, before they are put into use.
type prepared struct {
	*services
	captcha *captcha.Captcha
	commit  func() // puts them into use; it can't fail
}

// Snapshot returns them for the proxy.
func (p *prepared) Snapshot() *proxy.Snapshot {
	return &proxy.Snapshot{Router: p.router, Captcha: p.captcha, Unserved: p.unserved}
}

// prepare makes the captcha, the services and their connection pools of a configuration, and changes nothing.
func (j *Judge) prepare(next *config.Config) (_ *prepared, err error) {
	pages, c := j.pages, j.captcha
	if next != j.cfg && (next.Captcha.Templates != "" || !reflect.DeepEqual(next.Captcha, j.cfg.Captcha)) {
		if pages, c, err = j.newCaptcha(next, j.captcha); err != nil {
			return nil, problem.At("captcha", err)
		}
	}
	s, err := j.newServices(next, pages)
	if err != nil {
		return nil, err
	}
	var know []func()
	for _, p := range j.Processors {
		commit, err := p.Prepare(s.judged)
		if err != nil {
			return nil, err
		}
		know = append(know, commit)
	}
	return &prepared{services: s, captcha: c, commit: func() {
		for _, commit := range know {
			commit()
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.cfg, j.pages, j.captcha = next, pages, c
		j.useGroups(s.groups)
		j.indexes.trim(s.judged)
	}}, nil
}

// Captcha returns the captcha in use.
func (j *Judge) Captcha() *captcha.Captcha {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.captcha
}

// forget releases the counters of a service that is gone.
func (j *Judge) forget(service string) {
	j.rules.Forget(service)
	j.Cacher.ForgetLoad(service)
}

// forgetSubject removes a subject from memory and from the store.
func (j *Judge) forgetSubject(ctx context.Context, s identity.Subject) error {
	j.Cacher.Forget(s)
	for _, p := range j.Processors {
		p.Forget(s)
	}
	return j.learner.Forget(ctx, s)
}
