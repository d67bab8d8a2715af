package verdict

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/verdict/replicate"
)

// AttackConfig says what happens under attack.
type AttackConfig struct {
	For  time.Duration `mapstructure:"for"`  // how long a signal switches it on
	Ease time.Duration `mapstructure:"ease"` // tightening takes so long, and so does easing off
	Then string        `mapstructure:"then"` // how unknown visitors are challenged: check or captcha
}

func (c *AttackConfig) validate() error {
	var errs []error
	if c.For < time.Minute || c.For > MaxAttack {
		errs = append(errs, fmt.Errorf("attack.for: %v is not between 1m and 168h", c.For))
	}
	if c.Ease < 0 || c.Ease > time.Hour {
		errs = append(errs, fmt.Errorf("attack.ease: %v is not between 0s and 1h", c.Ease))
	}
	if step, ok := parseStep(c.Then); !ok || step == StepNothing {
		errs = append(errs, fmt.Errorf("attack.then: %.40q is neither check nor captcha", c.Then))
	}
	return errors.Join(errs...)
}

// MaxAttack is the longest attack, so that one that was forgotten ends.
const MaxAttack = 7 * 24 * time.Hour

// attackEvery is how often a node looks for the switches of others.
const attackEvery = 2 * time.Second

var attackKey = []byte("attack")

// Attacks is the switch "under attack", which only operators use: all visitors are challenged that the site does not know,
// and that bring no pass. It begins with a few of them and ends with a few: the share grows, and falls again, over
// AttackConfig.Ease. An address stays on its side of that share, so that no visitor is challenged now and then. Safe for
// concurrent use.
type Attacks struct {
	*clock
	cfg   AttackConfig
	step  Step
	bad   *metrics.Counter
	seed  maphash.Seed
	from  atomic.Int64 // unix nanoseconds
	until atomic.Int64 // 0: never
}

// strength returns the share of unknown visitors that is challenged at a time (unix nanoseconds), 0 to 1.
func (a *Attacks) strength(at int64) float64 {
	from, until, ease := a.from.Load(), a.until.Load(), a.cfg.Ease
	if at < from || at >= until {
		return 0
	}
	if ease == 0 {
		return 1
	}
	return min(float64(at-from), float64(until-at), float64(ease)) / float64(ease)
}

// AttackState is the state of the switch.
type AttackState struct {
	Until  time.Time // zero: it is off
	Share  float64   // of the unknown that are challenged now, 0 to 1
	Easing bool      // the share falls until then
}

// UnderAttack returns the state of the switch.
func (a *Attacks) UnderAttack() AttackState {
	at, from, until := a.now().UnixNano(), a.from.Load(), a.until.Load()
	if at >= until {
		return AttackState{}
	}
	return AttackState{
		Until: time.Unix(0, until).UTC(), Share: a.strength(at), Easing: until-at <= min(at-from, int64(a.cfg.Ease)),
	}
}

// Attack switches on until a time, which may be the present: then it eases off from where it is. A zero time stands for the
// configured length. It returns when it will be over. The switch is in force when Attack returns, even if the store fails;
// the error then says so.
func (a *Attacks) Attack(ctx context.Context, until time.Time) (over time.Time, err error) {
	now := a.now()
	if until.IsZero() {
		until = now.Add(a.cfg.For)
	}
	if until.Sub(now) > MaxAttack {
		return time.Time{}, fmt.Errorf("under attack: %v is too long, the limit is %v", until.Sub(now), MaxAttack)
	}
	at, ease := now.UnixNano(), int64(a.cfg.Ease)
	reached := int64(a.strength(at) * float64(ease))
	if until.After(now) {
		a.from.Store(at - reached)
		a.until.Store(until.UnixNano())
	} else {
		a.from.Store(at - ease)
		a.until.Store(at + reached)
	}
	c := replicate.Writer(nil, 0)
	a.code(c)
	over = time.Unix(0, a.until.Load()).UTC()
	if err := a.st.Put(ctx, attackKey, c.Bytes(), MaxAttack); err != nil {
		return over, fmt.Errorf("under attack: %w", err)
	}
	return over, nil
}

func (a *Attacks) code(c *replicate.Codec) {
	from, until := uint64(a.from.Load()), uint64(a.until.Load()) //nolint:gosec // read back as they are
	replicate.Uint(c, &from)
	replicate.Uint(c, &until)
	if c.OK() && c.Reads() {
		a.from.Store(int64(from))   //nolint:gosec // as it was written
		a.until.Store(int64(until)) //nolint:gosec // as it was written
	}
}

// load takes over the state in the store.
func (a *Attacks) load(ctx context.Context) error {
	val, err := a.st.Get(ctx, nil, attackKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read whether there is an attack: %w", err)
	}
	c := replicate.Reader(val, 0)
	if a.code(c); !c.OK() {
		a.bad.Inc()
	}
	return nil
}

// challenges reports whether an unknown visitor is challenged.
func (a *Attacks) challenges(id *identity.Identity, at time.Time) bool {
	if a.until.Load() == 0 || id.N == 0 || id.Partner {
		return false
	}
	share := a.strength(at.UnixNano())
	return share > 0 && a.chosen(id, share)
}

// chosen reports whether the visitor's address belongs to a share of all addresses.
func (a *Attacks) chosen(id *identity.Identity, share float64) bool {
	const most = 1 << 32
	return float64(maphash.Comparable(a.seed, id.Subjects[id.N-1])%most) < share*most
}
