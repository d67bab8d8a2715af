package verdict

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/store"
)

// While the gateway is under attack, which only an operator says, everybody is asked whom the site does not know: visitors
// without a pass who neither stand for themselves nor are established. It begins with a few of them and ends with a few: the
// share grows, and falls again, over AttackConfig.Ease. An address stays on its side of that share, so that nobody is asked
// now and then.

// AttackConfig says what happens under attack.
type AttackConfig struct {
	For  time.Duration `mapstructure:"for"`  // how long a signal switches it on
	Ease time.Duration `mapstructure:"ease"` // tightening takes so long, and so does easing off
	Then string        `mapstructure:"then"` // how the unknown are asked: check or captcha
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

// MaxAttack is the longest attack: an end that somebody has forgotten must come.
const MaxAttack = 7 * 24 * time.Hour

// attack is the switch. The zero value is off. Safe for concurrent use.
type attack struct {
	seed  maphash.Seed
	from  atomic.Int64 // unix nanoseconds
	until atomic.Int64 // 0: never
}

// strength returns the share of unknown visitors that is asked at a time (unix nanoseconds), 0 to 1.
func (a *attack) strength(at int64, ease time.Duration) float64 {
	from, until := a.from.Load(), a.until.Load()
	if at < from || at >= until {
		return 0
	}
	if ease == 0 {
		return 1
	}
	return min(float64(at-from), float64(until-at), float64(ease)) / float64(ease)
}

// AttackState is what is known of the switch.
type AttackState struct {
	Until  time.Time // zero: it is off
	Share  float64   // of the unknown that are asked now, 0 to 1
	Easing bool      // the share falls until then
}

// UnderAttack returns the state of the switch.
func (c *Cacher) UnderAttack() AttackState {
	at := c.now().UnixNano()
	from, until, ease := c.attack.from.Load(), c.attack.until.Load(), c.cfg.Attack.Ease
	if at >= until {
		return AttackState{}
	}
	return AttackState{
		Until: time.Unix(0, until).UTC(), Share: c.attack.strength(at, ease), Easing: until-at <= min(at-from, int64(ease)),
	}
}

// Attack switches on until a time, which may be the present: then it eases off from where it is. A zero time stands for the
// configured length. It returns when it will be over. The switch is in force when Attack returns, even if the store fails; the
// error then says so.
func (c *Cacher) Attack(ctx context.Context, until time.Time) (over time.Time, err error) {
	now := c.now()
	if until.IsZero() {
		until = now.Add(c.cfg.Attack.For)
	}
	if until.Sub(now) > MaxAttack {
		return time.Time{}, fmt.Errorf("under attack: %v is too long, the limit is %v", until.Sub(now), MaxAttack)
	}
	at, ease := now.UnixNano(), c.cfg.Attack.Ease
	reached := int64(c.attack.strength(at, ease) * float64(ease))
	if until.After(now) {
		c.attack.from.Store(at - reached)
		c.attack.until.Store(until.UnixNano())
	} else {
		c.attack.from.Store(at - int64(ease))
		c.attack.until.Store(at + reached)
	}
	over = time.Unix(0, c.attack.until.Load()).UTC()
	val := binary.BigEndian.AppendUint64(nil, uint64(c.attack.from.Load()))
	val = binary.BigEndian.AppendUint64(val, uint64(c.attack.until.Load()))
	if err := c.st.Put(ctx, attackKey, val, MaxAttack); err != nil {
		return over, fmt.Errorf("under attack: %w", err)
	}
	return over, nil
}

var attackKey = []byte("attack")

// attackEvery is how often a node looks at what others have switched.
const attackEvery = 2 * time.Second

// readAttack takes over what the store has.
func (c *Cacher) readAttack(ctx context.Context) error {
	val, err := c.st.Get(ctx, nil, attackKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read whether there is an attack: %w", err)
	}
	if len(val) != 16 {
		c.badRecords.Inc()
		return nil
	}
	c.attack.from.Store(int64(binary.BigEndian.Uint64(val)))
	c.attack.until.Store(int64(binary.BigEndian.Uint64(val[8:])))
	return nil
}

// followAttack reads it again and again; a store that is away changes nothing.
func (c *Cacher) followAttack(ctx context.Context) {
	for ctx.Err() == nil {
		_ = c.readAttack(ctx) // what is wrong with the store, others say
		store.Pause(ctx, attackEvery)
	}
}

// attacked reports whether the request is asked for because the site is under attack.
func (c *Cacher) attacked(d *Decision, v *request.View, id *identity.Identity, s *Settings) bool {
	if c.attack.until.Load() == 0 || id.N == 0 || id.Partner {
		return false
	}
	share := c.attack.strength(v.At.UnixNano(), c.cfg.Attack.Ease)
	if share == 0 || !c.attack.chosen(id, share) || c.known(id) || c.paths.read(c.pathKey(s, v)) == readingPart {
		return false
	}
	d.Step = c.attackStep
	return true
}

// chosen reports whether the visitor's address belongs to a share of all addresses.
func (a *attack) chosen(id *identity.Identity, share float64) bool {
	const most = 1 << 32
	return float64(maphash.Comparable(a.seed, id.Subjects[id.N-1])%most) < share*most
}
