package message

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/rules"
)

// ErrAway is returned by Keeper.System while the shared store is unavailable.
var ErrAway = errors.New("the message firewall is not there yet")

// Keeper holds the System of a gateway, which starts without one while a shared store is unavailable. Safe for
// concurrent use.
type Keeper struct {
	cfg      Config
	deps     Deps
	formulas heldFormulas
	system   atomic.Pointer[System]
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

const keeperRetry = 2 * time.Second

// NewKeeper returns a Keeper that has no System until Start.
func NewKeeper(cfg Config, d Deps) (*Keeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	k := &Keeper{cfg: cfg, deps: d}
	if d.Formulas != nil {
		k.formulas.now.Store(&d.Formulas)
		k.deps.Formulas = &k.formulas
	}
	return k, nil
}

// Start opens the System; ctx is for the start only.
func (k *Keeper) Start(ctx context.Context) error {
	s, err := begin(ctx, k.cfg, k.deps)
	if err == nil {
		k.system.Store(s)
		return nil
	}
	if !k.deps.Store.Shared() {
		return err
	}
	k.deps.Log.Error().Err(err).Msg("the message firewall waits for the shared store: until then its API answers " +
		"503, and message routes as their on_error says")
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k.cancel = cancel
	k.work.Go(func() { k.await(run) })
	return nil
}

func (k *Keeper) await(ctx context.Context) {
	t := time.NewTicker(keeperRetry)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		s, err := begin(ctx, k.cfg, k.deps)
		if err == nil {
			k.system.Store(s)
			k.deps.Log.Info().Msg("the shared store is back: the message firewall judges")
			return
		}
		k.deps.Log.Debug().Err(err).Msg("the message firewall still waits for the shared store")
	}
}

// System returns the System, or ErrAway.
func (k *Keeper) System() (*System, error) {
	if s := k.system.Load(); s != nil {
		return s, nil
	}
	return nil, ErrAway
}

// Prepare returns a function that puts other formulas into use. Rules that do not fit them keep the old ones.
func (k *Keeper) Prepare(f rules.Formulas) (commit func(), err error) {
	if f == nil || k.deps.Formulas == nil {
		return nil, errors.New("messages: there are no formulas")
	}
	return func() {
		k.formulas.now.Store(&f)
		if s := k.system.Load(); s != nil {
			s.Recompile()
		}
	}, nil
}

// Close closes the System and stops waiting for it.
func (k *Keeper) Close() error {
	if k.cancel != nil {
		k.cancel()
		k.work.Wait()
	}
	if s := k.system.Swap(nil); s != nil {
		return s.Close()
	}
	return nil
}

type heldFormulas struct {
	now atomic.Pointer[rules.Formulas]
}

// Bind implements rules.Formulas.
func (h *heldFormulas) Bind(name string, factors []string) (rules.Scorer, error) {
	return (*h.now.Load()).Bind(name, factors)
}

// Names implements rules.Formulas.
func (h *heldFormulas) Names() []string { return (*h.now.Load()).Names() }
