package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"antirobot/admin"
	"antirobot/config"
	"antirobot/message"
	"antirobot/message/rpc"
	"antirobot/proxy"
	"antirobot/rules"
	"antirobot/rules/requestrules"
	"antirobot/rules/sources"
	"antirobot/settings"
	"antirobot/verdict"
)

// openRules makes what runs the rules over requests.
func (a *Server) openRules() error {
	names, err := a.Cfg.RuleNames()
	if err != nil {
		return settings.At("formula", err)
	}
	a.formulas.Store(names.Formulas)
	a.requestRules, err = requestrules.New(requestrules.DefaultConfig(), requestrules.Deps{
		Store: a.store, Counters: sources.NewCounters(a.counters, nil), Lists: a.lists,
		Log: a.Logger("rules"), Metrics: a.set,
	})
	return err
}

// rules gives v the rules of a service or of a path.
func (b *builder) rules(s *config.Service, name string, v *verdict.Settings, fail func(section string, err error)) {
	r, err := b.app.requestRules.Ruleset(name, s.Rules, b.names)
	if err != nil {
		fail("rules", err)
	} else if r != nil {
		v.Rules = r
	}
}

// heldFormulas are the present models for rules over messages, which outlive a reload.
type heldFormulas struct{ atomic.Value }

// Bind is rules.Formulas.
func (h *heldFormulas) Bind(name string, factors []string) (rules.Scorer, error) {
	return h.now().Bind(name, factors)
}

// Names is rules.Formulas.
func (h *heldFormulas) Names() []string { return h.now().Names() }

func (h *heldFormulas) now() rules.Formulas {
	f, ok := h.Load().(*sources.Formulas)
	if !ok {
		panic("BUG: rules are compiled before their formulas are read")
	}
	return f
}

// reloadFormulas gives the rules over messages the models of a new configuration.
func (a *Server) reloadFormulas(names *requestrules.Names) {
	a.formulas.Store(names.Formulas)
	if s := a.messages.system.Load(); s != nil {
		s.Recompile()
	}
}

// messageKeeper holds the message firewall, which needs its store to begin: while a shared one is away the gateway goes
// on without, and the firewall comes up when the store does.
type messageKeeper struct {
	system atomic.Pointer[message.System]
	api    atomic.Pointer[messageAPI]
	wrap   func(*message.System) *messageAPI
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// messageAPI is the message firewall with its API.
type messageAPI struct {
	*message.System
	*rpc.Server
}

func (k *messageKeeper) took(s *message.System) {
	k.api.Store(k.wrap(s))
	k.system.Store(s)
}

// messageRetry is how often a shared store that was away at the start is asked again.
const messageRetry = 2 * time.Second

// openMessages starts the message firewall, with the rules, models and logs that the store has.
func (a *Server) openMessages() error {
	cfg, log := a.Cfg.Message, a.Logger("message")
	open := func(ctx context.Context) (*message.System, error) {
		return message.Open(ctx, cfg, message.Deps{
			Store: a.store, Log: log, Metrics: a.set,
			Counters: sources.NewCounters(a.counters, nil), Lists: sources.NewLists(a.lists, nil), Formulas: &a.formulas,
		})
	}
	a.messages = &messageKeeper{wrap: func(s *message.System) *messageAPI {
		return &messageAPI{s, rpc.New(rpc.Deps{System: s, Log: log, Metrics: a.set, Version: a.version, MaxRequest: cfg.MaxRequest})}
	}}
	s, err := open(context.Background())
	if err == nil {
		a.messages.took(s)
		return nil
	}
	if !a.store.Shared() {
		return err
	}
	log.Error().Err(err).Msg("the message firewall waits for the shared store: until then its API answers 503, and message routes as their on_error says")
	a.messages.await(open, log)
	return nil
}

// await opens the message firewall in the background.
func (k *messageKeeper) await(open func(context.Context) (*message.System, error), log zerolog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	k.work.Go(func() {
		t := time.NewTicker(messageRetry)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			s, err := open(ctx)
			if err == nil {
				k.took(s)
				log.Info().Msg("the shared store is back: the message firewall judges")
				return
			}
			log.Debug().Err(err).Msg("the message firewall still waits for the shared store")
		}
	})
}

func (k *messageKeeper) close() error {
	if k.cancel != nil {
		k.cancel()
		k.work.Wait()
	}
	if s := k.system.Load(); s != nil {
		return s.Close()
	}
	return nil
}

// messagesForAdmin is the message firewall for the private listener.
func (a *Server) messagesForAdmin() admin.Messages {
	if s := a.messages.api.Load(); s != nil {
		return s
	}
	return nil
}

// messagesForGateway is the message firewall for the routes of services.
func (a *Server) messagesForGateway() proxy.Messages {
	if s := a.messages.system.Load(); s != nil {
		return s
	}
	return nil
}

// MessageSystem returns the message firewall, nil while it waits for its store.
func (a *Server) MessageSystem() *message.System { return a.messages.system.Load() }
