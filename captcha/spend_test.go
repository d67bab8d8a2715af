package captcha

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/store"
)

// TestPitfall03OneAnswerOnce: the first answer spends the key, right or wrong.
func TestPitfall03OneAnswerOnce(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.visit("https://example.com/")
	rep := e.answerOf(fields.Get("key"))
	if a := e.submit(fields, wrong(rep)); a.Outcome != OutcomeFailed {
		t.Fatal("wrong is right")
	}
	if a := e.submit(fields, rep); a.Outcome != OutcomeFailed || cookies(&a)["spravka"] != "" ||
		!strings.Contains(a.Get("Location"), "status=failed") {
		t.Error("right after wrong counts")
	}
	_, fields = e.visit("https://example.com/")
	rep = e.answerOf(fields.Get("key"))
	if a := e.submit(fields, rep); a.Outcome != OutcomeSolved {
		t.Fatal("right is wrong")
	}
	e.pass(keptFor + time.Second)
	if a := e.submit(fields, rep); a.Outcome == OutcomeSolved || cookies(&a)["spravka"] != "" {
		t.Error("a right answer counts twice")
	}
}

func TestPitfall03InParallelOnNodesAndAfterRestart(t *testing.T) {
	e := newEnv(t, nil, manyChecks)
	_, fields := e.visit("https://example.com/")
	rep := e.answerOf(fields.Get("key"))
	nodes := []*Captcha{e.c, e.newCaptcha(e.c.cfg), e.newCaptcha(e.c.cfg)}
	var wg sync.WaitGroup
	solved := make(chan struct{}, 100)
	for i := range 60 {
		q := e.request("POST", "https://example.com/checkcaptcha", form("key", fields.Get("key"), "rep", rep))
		wg.Go(func() {
			if a := nodes[i%len(nodes)].Check(q); a.Outcome == OutcomeSolved {
				solved <- struct{}{}
			}
		})
	}
	wg.Wait()
	if len(solved) != 1 {
		t.Errorf("%d passes for one key", len(solved))
	}
	e.c = e.newCaptcha(e.c.cfg)
	if a := e.submit(fields, rep); a.Outcome == OutcomeSolved {
		t.Error("the key counts again after a restart")
	}
}

// slowly is a store that keeps a pass only when presses have looked for it three times in vain.
type slowly struct {
	store.Store
	gets    atomic.Int32
	puts    chan struct{} // one for each Put that has begun
	release chan struct{}
}

func (s *slowly) Get(ctx context.Context, dst, key []byte) ([]byte, error) {
	if s.gets.Add(1) == 3 {
		defer close(s.release)
	}
	return s.Store.Get(ctx, dst, key)
}

func (s *slowly) Put(ctx context.Context, key, value []byte, ttl time.Duration) error {
	s.puts <- struct{}{}
	<-s.release
	return s.Store.Put(ctx, key, value, ttl)
}

// TestSecondPressGetsTheSamePass: who presses again before the first press is answered gets the pass that it earned,
// here or at another node, and nothing is spent or earned twice.
func TestSecondPressGetsTheSamePass(t *testing.T) {
	e := newEnv(t, nil)
	slow := &slowly{Store: e.store, puts: make(chan struct{}, 9), release: make(chan struct{})}
	e.store = slow
	e.c = e.newCaptcha(e.c.cfg)
	_, fields := e.visit("https://example.com/")
	rep := e.answerOf(fields.Get("key"))
	press := func(c *Captcha, out chan<- Response) {
		q := e.request("POST", "https://example.com/checkcaptcha", form("key", fields.Get("key"), "rep", rep, "retpath",
			fields.Get("retpath"), "t", fields.Get("t"), "u", fields.Get("u"), "s", fields.Get("s")))
		go func() { out <- c.Check(q) }()
	}
	out := make(chan Response, 3)
	press(e.c, out)
	<-slow.puts // the key is spent, the pass is not kept yet
	press(e.c, out)
	press(e.newCaptcha(e.c.cfg), out)
	solved, passes := 0, map[string]bool{}
	for range 3 {
		a := <-out
		if a.Status != 303 || a.Get("Location") != "https://example.com/" {
			t.Errorf("a press leads to %s (%d)", a.Get("Location"), a.Status)
		}
		if a.Outcome == OutcomeSolved {
			solved++
		}
		p, err := e.ring.OpenPass([]byte(value(cookies(&a)["spravka"])), e.now())
		if err != nil {
			t.Errorf("a press gets no pass: %v", err)
			continue
		}
		passes[string(p.ID[:])] = true
	}
	if solved != 1 || len(passes) != 1 {
		t.Errorf("%d earnings, %d passes for one answer", solved, len(passes))
	}
}

// expiring is a store that expires spent keys by a clock of its own, as Redis does.
type expiring struct {
	store.Store
	now   func() time.Time
	ahead time.Duration
	until map[string]time.Time
}

func (s *expiring) Spend(_ context.Context, key []byte, ttl time.Duration) (bool, error) {
	s.expire()
	if _, ok := s.until[string(key)]; ok {
		return false, nil
	}
	s.until[string(key)] = s.now().Add(s.ahead + ttl)
	return true, nil
}

func (s *expiring) expire() {
	maps.DeleteFunc(s.until, func(_ string, until time.Time) bool { return !until.After(s.now().Add(s.ahead)) })
}

// TestPitfall03StoresClockAheadAndBack: an hour of a server's clock, forth and back, lets no answer count again on
// another node.
func TestPitfall03StoresClockAheadAndBack(t *testing.T) {
	e := newEnv(t, nil)
	s := &expiring{Store: e.store, now: e.now, until: map[string]time.Time{}}
	e.store = s
	e.c = e.newCaptcha(e.c.cfg)
	_, fields := e.visit("https://example.com/")
	rep := e.answerOf(fields.Get("key"))
	if a := e.submit(fields, rep); a.Outcome != OutcomeSolved {
		t.Fatal("right is wrong")
	}
	e.pass(e.c.cfg.KeyTTL - time.Minute)
	s.ahead = time.Hour
	s.expire()
	s.ahead = 0
	e.c = e.newCaptcha(e.c.cfg) // another node
	if a := e.submit(fields, rep); a.Outcome == OutcomeSolved || cookies(&a)["spravka"] != "" {
		t.Error("the answer counts again")
	}
}

// order records the calls to the store.
type order struct {
	store.Store
	mu    sync.Mutex
	asked []string
	later []string // what will be spent when the store is back
	fail  error
}

func (o *order) SpendLater(key []byte, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.later = append(o.later, string(key))
}

func (o *order) note(what string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, what)
	return o.fail
}

func (o *order) Spend(ctx context.Context, key []byte, ttl time.Duration) (bool, error) {
	if err := o.note("spend"); err != nil {
		return false, err
	}
	return o.Store.Spend(ctx, key, ttl)
}

func (o *order) Take(ctx context.Context, key []byte, want, limit int64, ttl time.Duration) (int64, error) {
	if err := o.note("take"); err != nil {
		return 0, err
	}
	return o.Store.Take(ctx, key, want, limit, ttl)
}

func (o *order) Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error) {
	if err := o.note("incr"); err != nil {
		return 0, err
	}
	return o.Store.Incr(ctx, key, n, ttl)
}

// TestNothingIsStoredForAnUnansweredChallenge counts the writes.
func TestNothingIsStoredForAnUnansweredChallenge(t *testing.T) {
	e := newEnv(t, nil)
	o := &order{Store: e.store}
	e.store = o
	e.c = e.newCaptcha(e.c.cfg)
	q := func() *Request { return e.request("GET", "https://example.com/") }
	e.c.Redirect(q())
	e.c.ChallengeJSON(q())
	e.c.ChallengeXML(q(), false)
	if len(o.asked) != 0 {
		t.Errorf("the store was asked for a challenge: %v", o.asked)
	}
	_, fields := e.visit("https://example.com/")
	e.c.Image(e.request("GET", "https://example.com/captcha/image?key="+fields.Get("key")))
	e.submit(fields, wrong(e.answerOf(fields.Get("key"))))
	n, err := e.c.prices.earned(t.Context(), addr("203.0.113.7"), e.now())
	if err != nil || n.day != 0 {
		t.Errorf("%v %v", n, err)
	}
	for _, what := range o.asked {
		if what != "incr" { // an Incr of 0 reads
			t.Errorf("an unanswered and a wrong challenge wrote to the store: %v", o.asked)
		}
	}
}

func TestStoreFailure(t *testing.T) {
	for _, policy := range []string{"open", "closed"} {
		e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.OnStoreFailure = policy })
		away := &order{Store: e.store, fail: errors.New("store is away")}
		e.store = away
		e.c = e.newCaptcha(e.c.cfg)
		_, fields := e.visit("https://example.com/")
		rep := e.answerOf(fields.Get("key"))
		a := e.submit(fields, rep)
		switch {
		case policy == "open" && (a.Outcome != OutcomeSolved || cookies(&a)["spravka"] == ""):
			t.Errorf("open: outcome %d, status %d", a.Outcome, a.Status)
		case policy == "closed" && (a.Status != 503 || cookies(&a)["spravka"] != "" || a.Get("Retry-After") == ""):
			t.Errorf("closed: status %d", a.Status)
		}
		if a := e.submit(fields, rep); a.Outcome == OutcomeSolved {
			t.Errorf("%s: the key counts twice while the store is away", policy)
		}
		m := Message{7}
		q := e.request("POST", "https://shop.example/comments")
		cookie := grantOf(t, e.c.ChallengeMessageJSON(e.request("POST", "https://shop.example/comments"), &m, "SPAM"))
		q.View.Fields = append(q.View.Fields, request.Field{Name: []byte("Cookie"), Value: []byte(cookie)})
		passBorn(q.ID, 1, e.now())
		if _, _, ok := e.c.TakeGrant(q, &m); ok != (policy == "open") {
			t.Errorf("%s: a grant is taken: %v", policy, ok)
		}
		var kinds []string
		for _, key := range away.later {
			kinds = append(kinds, key[:strings.LastIndexByte(key[:len(key)-16], '/')])
		}
		want := map[string]string{"open": "[captcha/key captcha/grant]", "closed": "[]"}[policy]
		if got := fmt.Sprint(kinds); got != want {
			t.Errorf("%s: %s are spent when the store is back; want %s", policy, got, want)
		}
	}
}

// solve earns a pass like a person who types quickly.
func (e *env) solve(opts ...opt) Response {
	e.t.Helper()
	return e.solveIn(3*time.Second, opts...)
}

func (e *env) solveIn(took time.Duration, opts ...opt) Response {
	e.t.Helper()
	_, fields := e.visit("https://example.com/", opts...)
	e.pass(took)
	return e.submit(fields, e.answerOf(fields.Get("key")), opts...)
}

func TestIPv6IsCountedByNetwork(t *testing.T) {
	e := newEnv(t, func(c *Config, _ *ServiceConfig, _ *identity.ServiceConfig) { c.PassesPerDay = 2 })
	for range 2 {
		if a := e.solve(from("2001:db8:1:2::1")); a.Outcome != OutcomeSolved {
			t.Fatal("first")
		}
	}
	if a := e.c.Page(e.request("GET", "https://example.com/showcaptcha", from("2001:db8:1:2:ffff::9"))); a.Status != 429 {
		t.Errorf("another address of the /64: status %d", a.Status)
	}
	if a := e.solve(from("2001:db8:1:3::1")); a.Outcome != OutcomeSolved {
		t.Error("another /64 is counted together")
	}
}

// TestPitfall12TriesAreLimited: attempts are rate-limited; the limit passes, and nobody is banned.
func TestPitfall12TriesAreLimited(t *testing.T) {
	e := newEnv(t, nil, func(b *bounds) { b.checks = rate{6, 3} })
	_, fields := e.visit("https://example.com/")
	for range 3 {
		e.submit(fields, "000")
	}
	a := e.submit(fields, "000")
	if a.Status != 429 || a.Get("Retry-After") != "10" || a.Outcome != OutcomeLimited {
		t.Errorf("status %d, Retry-After %q", a.Status, a.Get("Retry-After"))
	}
	js := e.check(form("key", fields.Get("key"), "rep", "1"), header("Accept", "application/json"))
	if js.Status != 429 || !bytes.Contains(js.Body, []byte(`"retry-after":10`)) {
		t.Errorf("%d %s", js.Status, js.Body)
	}
	if a := e.submit(fields, "000", from("203.0.113.9")); a.Status == 429 {
		t.Error("another address is limited too")
	}
	e.pass(10 * time.Second)
	if a := e.submit(fields, "000"); a.Status == 429 {
		t.Error("still limited after the wait")
	}
}

// TestReloadForgetsNothing: after a reload a wrongly answered key stays answered, and attempts stay counted.
func TestReloadForgetsNothing(t *testing.T) {
	e := newEnv(t, nil, func(b *bounds) { b.checks = rate{1, 3} })
	_, fields := e.visit("https://example.com/")
	rep := e.answerOf(fields.Get("key"))
	e.submit(fields, wrong(rep))
	cfg := e.c.cfg
	cfg.Digits = 5
	c, err := New(cfg, Deps{Keys: e.c.keys, Store: e.store, Now: e.now, Previous: e.c})
	if err != nil {
		t.Fatal(err)
	}
	e.c = c
	if a := e.submit(fields, rep); a.Outcome != OutcomeFailed {
		t.Errorf("outcome %d", a.Outcome)
	}
	e.submit(fields, rep)
	if a := e.submit(fields, rep); a.Status != 429 {
		t.Errorf("the tries before the reload are forgotten: status %d", a.Status)
	}
}
