package gateway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/admin"
	"antirobot/admin/peers"
	"antirobot/alarm"
	"antirobot/config"
	"antirobot/console"
	"antirobot/problem"
	"antirobot/proxy"
	"antirobot/proxy/traces"
	"antirobot/verdict"
)

// base is shared by all parts: the configuration in force, the log and the metrics. It is safe for concurrent use.
type base struct {
	version string // of the program
	began   time.Time
	log     zerolog.Logger
	set     *metrics.Set
	cfg     atomic.Pointer[config.Config]
}

// Config returns the configuration in force.
func (b *base) Config() *config.Config { return b.cfg.Load() }

// Logger returns the log of one part of the gateway.
func (b *base) Logger(name string) zerolog.Logger { return b.log.With().Str("part", name).Logger() }

// inDataDir returns the path of a file or directory of the data directory.
func (b *base) inDataDir(name string) string { return filepath.Join(b.Config().DataDir, name) }

// part is one part of the gateway, as it is opened and closed.
type part struct {
	name  string       // for errors; empty: they name the part themselves
	open  func() error // builds the part, and starts it
	close func() error // nil: there is nothing to close
}

// parts are open parts, in the order in which they were opened.
type parts []part

// open opens each part, which needs only those before it. On an error, close what is open.
func (p *parts) open(all ...part) error {
	for _, x := range all {
		if err := x.open(); err != nil {
			if x.name == "" {
				return err
			}
			return fmt.Errorf("%s: %w", x.name, err)
		}
		*p = append(*p, x)
	}
	return nil
}

func (p *parts) close() error {
	var errs []error
	for _, x := range slices.Backward(*p) {
		if x.close == nil {
			continue
		}
		if err := x.close(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", x.name, err))
		}
	}
	*p = nil
	return errors.Join(errs...)
}

// Server is a running gateway. Its parts live as long as the process; a reload replaces what they are configured with.
type Server struct {
	base
	reread    func(pushed map[string]any) (*config.Config, error) // nil: the configuration is not read again
	pushed    atomic.Pointer[map[string]any]                      // values over the file; nil: none
	logs      *logWriter
	opened    parts
	closeOnce sync.Once
	reloading sync.Mutex // serialises reloads

	certs    certs
	storage  storage
	figures  figures
	traces   *traces.Tracer // nil: off
	link     link
	inFlight *proxy.InFlight
	judge    *Judge
	messages messages
	proxy    *proxy.Gateway
	fronts   fronts

	alarms  *alarm.Watch
	pushes  *pushes      // nil: nothing can be pushed
	peers   *peers.Peers // nil: the store is not shared
	Token   string       // of the private listener
	admin   *admin.Server
	console *console.Console
}

// parts are all parts; each needs only those above it.
func (a *Server) parts() []part {
	return []part{
		{"data directory", func() error { return os.MkdirAll(a.Config().DataDir, 0o700) }, nil},
		{"certificates", a.certs.open, nil},
		{"store", a.storage.open, func() error { return a.storage.store.Close() }},
		{"keys", a.storage.openKeys, a.storage.closeKeys},
		{"ACME", func() error { return a.certs.openACME(&a.storage) }, a.certs.closeACME},
		{"counter queue", a.storage.openCounterQueue, a.storage.closeCounterQueue},
		{"journal", a.openJournal, a.figures.close},
		{"traces", a.openTraces, a.closeTraces},
		{"restart_log", a.link.openRestartLog, a.link.closeRestartLog},
		{"", a.openJudge, func() error { return a.judge.Close() }},
		{"messages", func() error { return a.messages.open(&a.storage, a.judge) }, a.messages.close},
		{"stream", func() error { a.link.open(a.storage.store, a.judge); return nil }, a.link.close},
		{"services", a.openProxy, nil},
		{"deliveries", a.startDeliveries, func() error { return a.messages.queue.Close() }},
		{"visitors", func() error { return a.fronts.open(a.proxy, a.judge.Resolver, a.storage.keys) }, a.fronts.close},
		{"check mode", a.fronts.openChecks, a.fronts.checks.close},
		{"alarms", a.openAlarms, func() error { return a.alarms.Close() }},
		{"pushed configuration", a.openPush, a.closePush},
		{"other gateways", a.openPeers, a.closePeers},
		{"private listener", a.openAdmin, func() error { return a.admin.Close() }},
	}
}

// Deps is what a Server is started with.
type Deps struct {
	Version string // of the program
	// Reread reads the current configuration, with pushed values over the file. nil: it is not read again.
	Reread func(pushed map[string]any) (*config.Config, error)
}

// New builds everything up to the listeners. On an error it closes what it has opened.
func New(cfg *config.Config, d Deps) (*Server, error) {
	a := &Server{base: base{version: d.Version, set: metrics.NewSet(), began: time.Now()}, reread: d.Reread}
	a.cfg.Store(cfg)
	a.logs = newLogWriter(os.Stdout)
	a.log = zerolog.New(a.logs).With().Timestamp().Logger()
	setLogLevel(cfg.Log.Level)
	b := &a.base
	a.certs = certs{base: b}
	a.storage = storage{base: b}
	a.figures = figures{base: b, sums: map[string]float64{}}
	a.link = link{base: b}
	a.messages = messages{base: b}
	a.fronts = fronts{base: b, certs: &a.certs, failed: make(chan error, 8), checks: checks{base: b}}
	if err := a.opened.open(a.parts()...); err != nil {
		a.Close()
		return nil, err
	}
	a.warn(cfg)
	return a, nil
}

func (a *Server) warn(cfg *config.Config) {
	for _, w := range cfg.Warnings() {
		a.log.Warn().Msg(w)
	}
}

func setLogLevel(name string) {
	level, err := zerolog.ParseLevel(name)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.SetGlobalLevel(level)
}

// Close closes the parts in reverse order and writes out pending data. It may be called more than once.
func (a *Server) Close() {
	a.closeOnce.Do(func() {
		a.fronts.draining.Store(true)
		if err := a.opened.close(); err != nil {
			a.log.Error().Strs("problems", problem.Lines(err)).Msg("close")
		}
		a.fronts.serving.Wait()
		a.log.Info().Msg("stopped")
		_ = a.logs.Close()
	})
}

// openJudge builds what decides, with what it tells the other parts.
func (a *Server) openJudge() (err error) {
	a.inFlight = proxy.NewInFlight(a.Config().Role != config.RoleAll)
	live := &live{
		part: a.link.part(), losses: a.storage.losses, localLog: a.storage.localLog, banned: a.figures.banned, judged: a.inFlight.Judged,
	}
	if log := a.link.restartLog; log != nil {
		live.judged, live.waits = func(e *verdict.Event) { a.inFlight.Judged(e); log.Add(e) }, true
	}
	a.judge, err = newJudge(a.Config(), JudgeDeps{
		Store: a.storage.store, Counters: a.storage.store.counters, Keys: a.storage.keys, Log: a.Logger, Metrics: a.set,
	}, live)
	if err == nil {
		a.figures.decisions = a.judge.Cacher.Decisions()
	}
	return err
}

// openTraces starts sending traces to a receiver, if there is one.
func (a *Server) openTraces() (err error) {
	a.traces, err = traces.New(a.Config().Traces, traces.Deps{Version: a.version, Log: a.Logger("traces"), Metrics: a.set})
	return err
}

func (a *Server) closeTraces() error {
	if a.traces == nil {
		return nil
	}
	return a.traces.Close()
}

// openProxy builds the services and the proxy over them.
func (a *Server) openProxy() error {
	next, err := a.judge.prepare(a.Config())
	if err != nil {
		return err
	}
	carry, err := a.link.prepare(next.services, a.judge)
	if err != nil {
		return err
	}
	cfg := a.Config()
	deps := proxy.Deps{
		Resolver: a.judge.Resolver, Decider: a.judge.Cacher, Messages: a.messages.keeper, Queue: a.messages.queue, Seconds: a.messages.seconds,
		Traces: a.traces, Hash: a.storage.keys.Ring().HashKey(), Log: a.Logger("gateway"), Metrics: a.set,
		DecisionLines: proxy.DecisionLines(), AccessLines: proxy.AccessLines(cfg.Log.AccessLines), AccessFields: true,
	}
	if a.figures.journal != nil {
		deps.Journal = a.figures.journal
	}
	if cfg.Processor.Enabled {
		proc := a.judge.Processors[0]
		deps.Sink, deps.InFlight, deps.Exempt, deps.Crawlers = a.link.sink(proc), a.inFlight, proc.Spares, proc.Learns()
	}
	if cfg.Log.Access {
		access := a.Logger("access")
		deps.Access = &access
	}
	if a.proxy, err = proxy.New(next.Snapshot(), deps); err != nil {
		return err
	}
	next.commit()
	carry()
	return nil
}
