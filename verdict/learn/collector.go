package learn

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/store"
)

// Visit is one evaluation of a visitor, or new evidence about it.
type Visit struct {
	Subjects []identity.Subject // all identities of the request, the winner first, the address last
	Service  string
	At       time.Time
	X        []float32 // in the order of Deps.Names; nil: only the evidence is new
	Evidence Evidence
}

// Evidence is what shows that a visitor is a person.
type Evidence uint8

// The evidence.
const (
	Subresources Evidence = 1 << iota // loads pages with their subresources; on three days it shows a person
	Solved                            // has solved digits
	Vouched                           // is signed in, or the service or an operator says that it is a person
)

const personDays = 3 // with subresources

// Deps is what a Collector works with. Store, Names and Metrics are required.
type Deps struct {
	Names   []string // of the features in a Visit; all of Features are among them
	Store   store.Store
	Now     func() time.Time // nil: time.Now
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// Collector keeps vectors of a sample of each service's visitors, learns from them every night, and grades visitors by
// the result. Gateways and processors that share a store share the vectors and what is learnt. Memory is bounded by
// 50,000 vectors for each service. Safe for concurrent use; See, Grade and MayCheck wait for nothing.
type Collector struct {
	st      store.Store
	now     func() time.Time
	log     zerolog.Logger
	at      []int // of each of Features, its place in the vector of a Visit
	grades  *grades
	vectors sync.Pool
	secret  atomic.Pointer[[32]byte] // hashes subjects; nil: not read yet
	mu      sync.RWMutex
	sites   map[string]*site

	fits, errors *metrics.Counter

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// site is one service.
type site struct {
	name   string
	card   atomic.Pointer[Card]
	chunks [chunks]chunk

	// For the background alone.
	read bool   // the vectors that the store has
	text []byte // of the card that was read last

	mu     sync.Mutex
	checks checks
}

// New makes a Collector. Start begins to read and write the store.
func New(d Deps) (*Collector, error) {
	c := &Collector{
		st: d.Store, now: d.Now, log: d.Log, grades: newGrades(), sites: map[string]*site{},
		fits:   d.Metrics.NewCounter("antirobot_learn_fits_total"),
		errors: d.Metrics.NewCounter("antirobot_learn_errors_total"),
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.vectors.New = func() any {
		x := make([]float32, len(Features))
		return &x
	}
	for _, name := range Features {
		i := slices.Index(d.Names, name)
		if i < 0 {
			return nil, fmt.Errorf("learn: there is no feature %q", name)
		}
		c.at = append(c.at, i)
	}
	return c, nil
}

func (c *Collector) site(service string) *site {
	c.mu.RLock()
	s := c.sites[service]
	c.mu.RUnlock()
	if s != nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s = c.sites[service]; s == nil {
		s = &site{name: service}
		c.sites[service] = s
	}
	return s
}

// See takes an evaluation: it grades the visitor, and keeps the vector if the visitor is in the sample.
func (c *Collector) See(v *Visit) {
	s := c.site(v.Service)
	var x []float32
	if v.X != nil {
		p := c.vectors.Get().(*[]float32)
		defer c.vectors.Put(p)
		x = *p
		for i, k := range c.at {
			x[i] = v.X[k]
		}
		c.grade(s, v, x)
	}
	if secret := c.secret.Load(); secret != nil {
		s.keep(secret, v, x)
	}
}

// grade remembers how usual the visitor is.
func (c *Collector) grade(s *site, v *Visit, x []float32) {
	card := s.card.Load()
	if card == nil || !card.Opinion() {
		return
	}
	old := c.grades.find(v.Subjects[0], v.Service, v.At)
	word, score := old.evaluated(card.Score(x))
	grade := Unusual
	if card.Usual(score) {
		grade = Usual
	}
	if v.Evidence&Vouched != 0 { // a person whose behaviour is unusual is not held to it
		grade++
	}
	check := old.check()
	if old == 0 {
		s.mu.Lock()
		check = s.checks.see(coarse(score), v.At)
		s.mu.Unlock()
	}
	c.grades.put(v.Subjects[0], v.Service, v.At, word.with(grade, check))
}

// Grade returns the grade of a visitor by its evaluations of the day.
func (c *Collector) Grade(s identity.Subject, service string, at time.Time) Grade {
	return c.grades.find(s, service, at).grade()
}

// MayCheck reports whether a visitor may meet the silent check because it is unusual: at most 3 % of a day's visitors
// may, the most unusual ones first.
func (c *Collector) MayCheck(s identity.Subject, service string, at time.Time) bool {
	w := c.grades.find(s, service, at)
	return w.check() && w.grade() == Unusual
}

func subjectKey(secret *[32]byte, s identity.Subject) uint64 {
	return keyed(secret, byte(s.Kind), s.ID)
}

// keyed hashes 16 bytes with the secret that gateways share. It is never 0.
func keyed(secret *[32]byte, kind byte, id [16]byte) uint64 {
	var b [49]byte
	copy(b[:], secret[:])
	b[32] = kind
	copy(b[33:], id[:])
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(sum[:]) | 1
}

// Keys of the store.
const (
	keySecret   = "learn/secret"
	keyVisitors = "learn/visitors/"
	keyCard     = "learn/card/"
	keyPrevious = "learn/previous/"
	keyNight    = "learn/night/"
)

// Fit learns from the vectors of a service, and publishes the card.
func (c *Collector) Fit(ctx context.Context, service string, at time.Time) (*Card, error) {
	card, _, err := Fit(ctx, c.site(service).samples(), Options{Service: service, At: at, Pause: pauses()})
	if err != nil {
		return nil, err
	}
	c.fits.Inc()
	return card, c.publish(ctx, service, card)
}

// pauses returns a func that sleeps for as long as the work since the last call took: learning gets half a core at
// most.
func pauses() func() {
	last := time.Now()
	return func() {
		time.Sleep(min(time.Since(last), 20*time.Millisecond))
		last = time.Now()
	}
}

// publish makes a card the one in use, here and elsewhere, and keeps the one before it.
func (c *Collector) publish(ctx context.Context, service string, card *Card) error {
	old, err := c.st.Get(ctx, nil, []byte(keyCard+service))
	if err == nil {
		err = c.st.Put(ctx, []byte(keyPrevious+service), old, 0)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("publish what was learnt: %w", err)
	}
	if err := c.st.Put(ctx, []byte(keyCard+service), card.Text(), 0); err != nil {
		return fmt.Errorf("publish what was learnt: %w", err)
	}
	c.site(service).card.Store(card)
	return nil
}

// ErrNoCard says that a service has no card, or none before the one in use.
var ErrNoCard = errors.New("nothing was learnt")

// RollBack puts the previous card of a service back into use. The card of the next night replaces it.
func (c *Collector) RollBack(ctx context.Context, service string) (*Card, error) {
	card, err := c.stored(ctx, keyPrevious+service)
	if err != nil {
		return nil, err
	}
	return card, c.publish(ctx, service, card)
}

func (c *Collector) stored(ctx context.Context, key string) (*Card, error) {
	text, err := c.st.Get(ctx, nil, []byte(key))
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNoCard
	}
	if err != nil {
		return nil, fmt.Errorf("read what was learnt: %w", err)
	}
	return ReadCard(text)
}

// Counts is how many visitors of a service are in the sample.
type Counts struct {
	Known  int `json:"known"`
	Others int `json:"others"`
}

// State is the sample and the card of a service.
type State struct {
	Service  string
	Sample   Counts
	Card     *Card // in use; nil: nothing was learnt yet
	Previous bool  // there is a card before it
}

// States returns the state of each service that visitors came to, or of which something was learnt.
func (c *Collector) States(ctx context.Context) ([]State, error) {
	names := map[string]bool{}
	for _, s := range c.list() {
		names[s.name] = true
	}
	err := c.st.Scan(ctx, []byte(keyCard), func(k, _ []byte, _ time.Duration) error {
		names[string(k[len(keyCard):])] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what was learnt: %w", err)
	}
	var list []State
	for _, name := range slices.Sorted(maps.Keys(names)) {
		s := State{Service: name}
		c.mu.RLock()
		known := c.sites[name]
		c.mu.RUnlock()
		if known != nil {
			s.Sample = known.counts()
		}
		if s.Card, err = c.stored(ctx, keyCard+name); err != nil && !errors.Is(err, ErrNoCard) {
			return nil, err
		}
		_, err := c.stored(ctx, keyPrevious+name)
		s.Previous = err == nil
		list = append(list, s)
	}
	return list, nil
}

// Forget forgets a visitor, here and in the store.
func (c *Collector) Forget(ctx context.Context, s identity.Subject) error {
	secret := c.secret.Load()
	if secret == nil {
		return nil
	}
	key := subjectKey(secret, s)
	var errs []error
	for _, site := range c.list() {
		i := key >> 8 % chunks
		errs = append(errs, site.chunks[i].save(ctx, c.st, site.chunkKey(int(i)), key))
	}
	return errors.Join(errs...)
}

const (
	tick        = time.Minute
	saveEvery   = time.Hour
	nightHour   = 3 // local time
	closeWithin = 10 * time.Second
)

// Start begins to share vectors and cards over the store, and to learn at night. A store that is away is tried again.
func (c *Collector) Start(ctx context.Context) error {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	if err := c.Read(run); err != nil {
		if !c.st.Shared() {
			cancel()
			c.cancel = nil
			return err
		}
		c.log.Warn().Err(err).Msg("learning begins once the store answers")
	}
	c.wg.Go(func() { c.run(run) })
	return nil
}

// Close saves the vectors. The store stays open: it belongs to the caller.
func (c *Collector) Close() error {
	if c.cancel == nil {
		return nil
	}
	c.cancel()
	c.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	return c.Save(ctx)
}

func (c *Collector) run(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	saved := c.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := c.Read(ctx)
		if at := c.now(); at.Sub(saved) >= saveEvery {
			saved = at
			err = errors.Join(err, c.Save(ctx))
		}
		for _, s := range c.list() {
			err = errors.Join(err, c.night(ctx, s))
		}
		if err != nil && ctx.Err() == nil {
			c.errors.Inc()
			c.log.Warn().Err(err).Msg("learning is tried again later")
		}
	}
}

func (c *Collector) list() []*site {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.sites))
}

// Read reads the secret, the cards in use, and the vectors of services that are new here.
func (c *Collector) Read(ctx context.Context) error {
	if err := c.readSecret(ctx); err != nil {
		return err
	}
	var errs []error
	for _, s := range c.list() {
		if !s.read {
			err := s.save(ctx, c.st, true)
			s.read = err == nil
			errs = append(errs, err)
		}
		errs = append(errs, s.readCard(ctx, c.st))
	}
	return errors.Join(errs...)
}

// readCard puts the card of the store into use, if it is another one.
func (s *site) readCard(ctx context.Context, st store.KV) error {
	text, err := st.Get(ctx, nil, []byte(keyCard+s.name))
	if errors.Is(err, store.ErrNotFound) || err == nil && bytes.Equal(text, s.text) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what was learnt: %w", err)
	}
	card, err := ReadCard(text)
	if err == nil {
		s.card.Store(card)
		s.text = text
	}
	return err
}

func (c *Collector) readSecret(ctx context.Context) error {
	if c.secret.Load() != nil {
		return nil
	}
	var mine [32]byte
	_, _ = rand.Read(mine[:]) // never fails
	if _, err := c.st.Swap(ctx, []byte(keySecret), nil, mine[:], 0); err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	got, err := c.st.Get(ctx, nil, []byte(keySecret))
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	if len(got) != len(mine) {
		return fmt.Errorf("learn: %s has %d bytes instead of %d", keySecret, len(got), len(mine))
	}
	c.secret.Store((*[32]byte)(got))
	return nil
}

// Save forgets what is too old, and writes what has changed to the store, with what others have written there.
func (c *Collector) Save(ctx context.Context) error {
	var errs []error
	for _, s := range c.list() {
		s.expire(c.now())
		errs = append(errs, s.save(ctx, c.st, false))
	}
	return errors.Join(errs...)
}

// night learns once in a night, in one of the processes that share the store.
func (c *Collector) night(ctx context.Context, s *site) error {
	at := c.now()
	if s.counts().Known < fewest {
		return nil
	}
	key := keyNight + s.name + "/" + at.Local().Add(-nightHour*time.Hour).Format(time.DateOnly)
	first, err := c.st.Spend(ctx, []byte(key), 48*time.Hour)
	if err != nil || !first {
		return err
	}
	if err := s.save(ctx, c.st, true); err != nil {
		return err
	}
	card, err := c.Fit(ctx, s.name, at)
	if err != nil {
		return err
	}
	l := &card.Learnt
	c.log.Info().Str("service", s.name).Int("known", l.Known).Int("networks", l.Networks).Int("others", l.Others).
		Float64("area", l.Area).Float64("area_low", l.Low).Bool("opinion", card.Opinion()).
		Msg("learnt how usual visitors are")
	return nil
}
