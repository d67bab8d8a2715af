package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/admin"
	"antirobot/admin/peers"
	"antirobot/alarm"
	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/config"
	"antirobot/console"
	"antirobot/identity"
	"antirobot/identity/geo"
	"antirobot/journal"
	"antirobot/message"
	"antirobot/message/queue"
	"antirobot/message/second"
	"antirobot/proxy"
	"antirobot/proxy/acme"
	"antirobot/proxy/extauthz"
	"antirobot/proxy/h1"
	"antirobot/proxy/h2"
	"antirobot/proxy/h3"
	"antirobot/proxy/spoe"
	"antirobot/proxy/traces"
	"antirobot/proxy/upstream"
	"antirobot/rules/requestrules"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/stream"
	"antirobot/templates"
	"antirobot/verdict"
	"antirobot/verdict/counter"
	"antirobot/verdict/formula"
	"antirobot/verdict/label"
	"antirobot/verdict/processor"
)

// Server is the running gateway: the one place where the parts are put together. The parts that live as long as the
// process are here; what a reload replaces is in the gateway's Snapshot.
type Server struct {
	version string
	reread  func(pushed map[string]any) (*config.Config, error) // nil: the configuration is not read again
	pushed  atomic.Pointer[map[string]any]                      // the values over the file; nil: none
	pushes  *pushes                                             // nil: nothing can be pushed
	logs    *logWriter
	log     zerolog.Logger
	set     *metrics.Set
	began   time.Time
	Token   string // of the private listener

	opened    []part // in the order in which they were
	closeOnce sync.Once

	store        *Backend
	losses       *store.Losses       // nil: the store is not shared
	sharedRing   *spravka.SharedRing // nil: the ring is not shared
	counters     *counter.Shingler
	messages     *message.Keeper
	queue        *queue.Queue
	seconds      *second.Opinions
	requestRules *requestrules.Engine
	keys         *spravka.Keys
	lists        *cbb.Lists
	journal      *journal.Journal // nil: none is kept
	traces       *traces.Tracer   // nil: nothing is traced
	cacher       *verdict.Cacher
	places       *geo.Places
	labels       *label.Table
	proc         *processor.Processor
	turns        *proxy.Turns
	stream       stream.Stream     // nil: this process does everything
	publisher    *stream.Publisher // of a gateway that does not judge by itself
	consumer     *stream.Consumer  // of a processor
	diary        *stream.Diary     // of a process that does everything; nil: none is kept
	recall       sync.Once
	beating      context.CancelFunc
	sharing      context.CancelFunc // ends the exchange of answers with other gateways, and waits for it
	formula      *formula.Live
	resolver     *identity.Resolver
	pages        *templates.Set
	captcha      *captcha.Captcha
	gateway      *proxy.Gateway
	server       *h1.Server
	http2        *h2.Server // nil: it is not spoken
	http3        *h3.Server // nil: no listener speaks it
	alarms       *alarm.Watch
	peers        *peers.Peers // nil: the store is not shared
	admin        *admin.Server
	console      *console.Console
	certs        []*certificates
	clients      map[int]*h1.ClientCAs // by listener, of those that ask for certificates
	tickets      []*tls.Config         // of the listeners for visitors
	acme         *acme.Keeper          // nil: no certificate is obtained

	check       *proxy.Check // nil: check mode is off
	checkServer *h1.Server
	spoeCheck   *proxy.Check // nil: HAProxy does not ask over SPOE
	spoe        *spoe.Server
	envoyWhole  *proxy.Check // nil: Envoy does not ask over gRPC
	envoyBare   *proxy.Check
	envoy       *extauthz.Server

	cfg         atomic.Pointer[config.Config] // replaced under mu, and read by whoever asks
	mu          sync.Mutex                    // serialises reloads
	groups      map[string]*upstream.Group    // by service, kept over a reload that does not change them
	indexes     *Indexes
	gone        gone
	retireAfter time.Duration // retireAfter, but in tests
	serving     sync.WaitGroup
	failed      chan error // a listener that ended by itself
	draining    atomic.Bool

	AdminAddr    string   // where the private listener is
	visitorAddrs []string // where visitors are served
}

// part is one part of the gateway, as it is opened and closed.
type part struct {
	name  string
	open  func() error // builds the part, and starts it
	close func() error // nil: nothing is to be closed
}

// parts are all parts. Each needs those above it alone.
func (a *Server) parts() []part {
	return []part{
		{"data directory", func() error { return os.MkdirAll(a.Config().DataDir, 0o700) }, nil},
		{"certificates", a.openCertificates, nil},
		{"store", a.openStore, func() error { return a.store.Close() }},
		{"keys", a.openKeys, a.closeKeys},
		{"ACME", a.openACME, a.closeACME},
		{"counter queue", a.openCounterQueue, a.closeCounterQueue},
		{"counters", a.openCounters, func() error { return a.counters.Close() }},
		{"lists", a.openLists, func() error { return a.lists.Close() }},
		{"places", a.openPlaces, func() error { return a.places.Close() }},
		{"rules", a.openRules, nil},
		{"messages", a.openMessages, func() error { return a.messages.Close() }},
		{"queue", a.openQueue, nil},
		{"second opinions", a.openSeconds, func() error { return a.seconds.Close() }},
		{"journal", a.openJournal, a.closeJournal},
		{"traces", a.openTraces, a.closeTraces},
		{"verdict", a.openVerdict, func() error { return a.cacher.Close() }},
		{"identity", a.openIdentity, func() error { return a.resolver.Close() }},
		{"labels", a.openLabels, func() error { return a.labels.Close() }},
		{"diary", a.openDiary, a.closeDiary},
		{"processor", a.openProcessor, func() error { return a.proc.Close() }},
		{"stream", func() error { a.openStream(); return nil }, a.closeStream},
		{"captcha", a.openCaptcha, a.closeCaptcha},
		{"services", a.openGateway, a.closeGroups},
		{"deliveries", a.startDeliveries, func() error { return a.queue.Close() }},
		{"visitors", a.openVisitors, a.closeVisitors},
		{"check mode", a.openCheck, a.closeCheck},
		{"alarms", a.openAlarms, func() error { return a.alarms.Close() }},
		{"pushed configuration", a.openPush, a.closePush},
		{"other gateways", a.openPeers, a.closePeers},
		{"private listener", a.openAdmin, func() error { return a.admin.Close() }},
	}
}

// Deps is what a Server is started with.
type Deps struct {
	Version string // of the program
	// Reread reads the configuration as it stands now, with what was pushed over the file. nil: it is not read again.
	Reread func(pushed map[string]any) (*config.Config, error)
}

// New builds everything up to the listeners. What it has opened is closed again when it fails.
func New(cfg *config.Config, d Deps) (*Server, error) {
	a := &Server{
		version: d.Version, reread: d.Reread, set: metrics.NewSet(), began: time.Now(), groups: map[string]*upstream.Group{},
		indexes: &Indexes{}, gone: gone{sums: map[string]float64{}}, retireAfter: retireAfter, failed: make(chan error, 8),
	}
	a.cfg.Store(cfg)
	a.openLog()
	for _, p := range a.parts() {
		if err := p.open(); err != nil {
			a.Close()
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		a.opened = append(a.opened, p)
	}
	for _, w := range cfg.Warnings() {
		a.log.Warn().Msg(w)
	}
	return a, nil
}

// Config returns the configuration in force.
func (a *Server) Config() *config.Config { return a.cfg.Load() }

func (a *Server) openLog() {
	a.logs = newLogWriter(os.Stdout)
	setLogLevel(a.Config().Log.Level)
	a.log = zerolog.New(a.logs).With().Timestamp().Logger()
}

func setLogLevel(name string) {
	level, err := zerolog.ParseLevel(name)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.SetGlobalLevel(level)
}

// Logger is the log of one part of the gateway.
func (a *Server) Logger(name string) zerolog.Logger { return a.log.With().Str("part", name).Logger() }

// Close closes what was opened, in reverse order, and writes out pending data. It may be called more than once.
func (a *Server) Close() {
	a.closeOnce.Do(func() {
		a.draining.Store(true)
		for _, p := range slices.Backward(a.opened) {
			if p.close == nil {
				continue
			}
			if err := p.close(); err != nil {
				a.log.Error().Err(err).Str("part", p.name).Msg("close")
			}
		}
		a.serving.Wait()
		a.log.Info().Msg("stopped")
		_ = a.logs.Close()
	})
}
