package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/admin"
	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/proxy"
	"antirobot/proxy/h1"
	"antirobot/proxy/upstream"
	"antirobot/spravka"
	"antirobot/store/pebblestore"
	"antirobot/templates"
	"antirobot/verdict"
	"antirobot/verdict/processor"
)

// app is the running gateway: the one place where the parts are put together. The parts that live as long as the
// process stand here; what a reload replaces is in the gateway's Snapshot.
type app struct {
	flags *serveFlags
	logs  *logWriter
	log   zerolog.Logger
	level *levelSwitch
	set   *metrics.Set
	began time.Time
	token string

	store    *pebblestore.Store
	ring     atomic.Pointer[spravka.Ring]
	lists    *cbb.Lists
	cacher   *verdict.Cacher
	proc     *processor.Processor
	resolver *identity.Resolver
	captcha  *captcha.Captcha
	metrics  *proxy.Metrics
	gateway  *proxy.Gateway
	server   *h1.Server
	admin    *admin.Server

	mu       sync.Mutex // serialises reloads
	cfg      *Config
	groups   map[string]*upstream.Group // by service, kept over a reload that does not change them
	certs    []*h1.Certificates
	draining atomic.Bool
}

// newApp builds everything up to the listeners. What it has opened is closed again when it fails.
func newApp(cfg *Config, flags *serveFlags) (_ *app, err error) {
	a := &app{flags: flags, cfg: cfg, set: metrics.NewSet(), began: time.Now(), groups: map[string]*upstream.Group{}}
	a.openLog()
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	steps := []struct {
		what string
		do   func() error
	}{
		{"data directory", a.openDataDir},
		{"keys", a.openKeys},
		{"store", a.openStore},
		{"lists", a.openLists},
		{"verdict", a.openVerdict},
		{"identity", a.openIdentity},
		{"captcha", a.openCaptcha},
		{"services", a.openGateway},
		{"private listener", a.openAdmin},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.what, err)
		}
	}
	for _, w := range cfg.warnings() {
		a.log.Warn().Msg(w)
	}
	return a, nil
}

func (a *app) openDataDir() error {
	return os.MkdirAll(a.cfg.DataDir, 0o700)
}

func (a *app) openKeys() error {
	ring, made, err := spravka.LoadOrMakeRing(a.cfg.keyFile(), time.Now())
	if err != nil {
		return err
	}
	if made {
		a.log.Info().Str("file", a.cfg.keyFile()).Msg("made the key ring")
	}
	return a.takeRing(a.cfg, ring)
}

// takeRing puts a ring into use, unless it is the documented example and something is enforced with it.
func (a *app) takeRing(cfg *Config, ring *spravka.Ring) error {
	if ring.IsExample() && cfg.enforces() {
		return fmt.Errorf("%s holds the example key of the documentation: anybody could make passes; make a ring of your own with `antirobot keys make`", cfg.keyFile())
	}
	a.ring.Store(ring)
	return nil
}

func (a *app) openStore() (err error) {
	a.store, err = pebblestore.Open(filepath.Join(a.cfg.DataDir, "store"), a.cfg.Store, a.log, time.Now)
	return err
}
