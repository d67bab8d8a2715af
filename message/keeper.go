package message

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/rules"
)

// ErrAway is what Keeper.System returns while the shared store is away that the System is read from.
var ErrAway = errors.New("the message firewall is not there yet")

// Keeper keeps the System of a gateway, which needs its store to begin: while a shared one is away the gateway goes on
// without, and the System comes up when the store does. Make it with NewKeeper; safe for concurrent use.
type Keeper struct {
	cfg      Config
	deps     Deps
	formulas heldFormulas
	system   atomic.Pointer[System]
	cancel   context.CancelFunc // nil: nothing waits for the store
	work     sync.WaitGroup
}

// keeperRetry is how often a shared store that was away at the start is asked again.
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

// Start opens the System, with the rules, models and logs that the store has. ctx is that of the start.
func (k *Keeper) Start(ctx context.Context) error {
	s, err := begin(ctx, k.cfg, k.deps)
	if err == nil {
		k.system.Store(s)
		return nil
	}
	if !k.deps.Store.Shared() {
		return err
	}
	k.deps.Log.Error().Err(err).Msg("the message firewall waits for the shared store: until then its API answers 503, and message routes as their on_error says")
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k.cancel = cancel
	k.work.Go(func() { k.await(run) })
	return nil
}

// await opens the System as soon as the store lets it.
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

// Prepare makes ready for other formulas, and returns what puts them into use. Rules that do not fit them go on with those
// that they have, and the log says so.
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

// Close ends the System, and the wait for it.
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

// heldFormulas are the present formulas, which outlive a reload.
type heldFormulas struct {
	now atomic.Pointer[rules.Formulas]
}

// Bind implements rules.Formulas.
func (h *heldFormulas) Bind(name string, factors []string) (rules.Scorer, error) {
	return (*h.now.Load()).Bind(name, factors)
}

// Names implements rules.Formulas.
func (h *heldFormulas) Names() []string { return (*h.now.Load()).Names() }
