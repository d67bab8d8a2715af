package learn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/verdict/formula"
	"antirobot/verdict/learn"
	"antirobot/verdict/processor"
)

var day = time.Date(2025, 11, 3, 12, 0, 0, 0, time.UTC)

// manner is how a kind of visitor behaves: the location and spread of the logarithm of every feature.
type manner struct{ at, spread float64 }

var (
	reader  = manner{0, 1}
	scraper = manner{1.5, 0.5}
	hoarder = manner{-2, 0.5} // unlike readers and unlike scrapers
)

func (m manner) draw(r *rand.Rand) []float32 {
	x := make([]float32, len(learn.Features))
	for i := range x {
		x[i] = float32(math.Exp(m.at + m.spread*r.NormFloat64()))
		if r.IntN(5) == 0 {
			x[i] = float32(math.NaN())
		}
	}
	return x
}

// crowd draws so many samples, each of a visitor and a network of its own.
func crowd(r *rand.Rand, n int, m manner, known bool) (list []learn.Sample) {
	for range n {
		s := learn.Sample{Subject: r.Uint64(), Network: r.Uint64(), Known: known}
		s.Vectors.Add(m.draw(r))
		list = append(list, s)
	}
	return list
}

func fit(t testing.TB, samples []learn.Sample) (*learn.Card, []float32) {
	t.Helper()
	c, scores, err := learn.Fit(context.Background(), samples, learn.Options{Service: "shop", At: day})
	if err != nil {
		t.Fatal(err)
	}
	return c, scores
}

// TestFeatures: each feature that is learnt from exists.
func TestFeatures(t *testing.T) {
	for _, f := range learn.Features {
		if !slices.Contains(processor.FactorNames(), f) {
			t.Errorf("there is no feature %s", f)
		}
	}
}

// TestFit: robots without labels rank behind people who are not known, and the card means the same to its reader and to
// package formula.
func TestFit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	samples := slices.Concat(crowd(r, 300, reader, true), crowd(r, 300, reader, false), crowd(r, 200, scraper, false))
	c, scores := fit(t, samples)
	if l := c.Learnt; !c.Opinion() || l.Known != 300 || l.Networks != 300 || l.Others != 500 || l.Trimmed != 15 {
		t.Errorf("%+v", l)
	}
	var usual [3]int
	for i, s := range scores {
		if c.Usual(s) {
			usual[min(i/300, 2)]++
		}
	}
	if usual[0] < 284 || usual[0] > 286 || usual[1] < 270 || usual[2] > 20 {
		t.Errorf("usual are %d of 300 known people, %d of 300 others, %d of 200 robots", usual[0], usual[1], usual[2])
	}
	again, err := learn.ReadCard(c.Text())
	if err != nil {
		t.Fatalf("%v\n%s", err, c.Text())
	}
	model, err := formula.Load(c.Text(), learn.Features)
	if err != nil {
		t.Fatalf("%v\n%s", err, c.Text())
	}
	for n := range 300 {
		x := []manner{reader, scraper}[n%2].draw(r)
		want := c.Score(x)
		if got := again.Score(x); got != want {
			t.Fatalf("read again: %v instead of %v", got, want)
		}
		if got := model.Raw(x); math.Abs(float64(got-want)) > 1e-4 {
			t.Fatalf("as a formula: %v instead of %v", got, want)
		}
	}
	if last := c.Rank(float32(math.Inf(1))); last != 1 || c.Rank(float32(math.Inf(-1))) != 0 {
		t.Errorf("the least usual visitor has the rank %v", last)
	}
}

// TestNoOpinion: where few are known, or the known people are like everybody else, nothing is said of anybody.
func TestNoOpinion(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	few, _ := fit(t, slices.Concat(crowd(r, 150, reader, true), crowd(r, 500, scraper, false)))
	alike, _ := fit(t, slices.Concat(crowd(r, 300, reader, true), crowd(r, 500, reader, false)))
	office := crowd(r, 300, reader, true)
	for i := range office {
		office[i].Network = 7
	}
	near, _ := fit(t, slices.Concat(office, crowd(r, 500, scraper, false)))
	for name, c := range map[string]*learn.Card{"few": few, "alike": alike, "one network": near} {
		if c.Opinion() {
			t.Errorf("%s: an opinion by %+v", name, c.Learnt)
		}
	}
	_, _, err := learn.Fit(context.Background(), crowd(r, 20, reader, true), learn.Options{})
	if !errors.Is(err, learn.ErrFew) {
		t.Errorf("without others: %v", err)
	}
}

// TestRobotsAmongTheKnown: a tenth of the known people are robots, and robots are unusual all the same.
func TestRobotsAmongTheKnown(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	known := slices.Concat(crowd(r, 400, reader, true), crowd(r, 12, scraper, true))
	c, _ := fit(t, slices.Concat(known, crowd(r, 400, reader, false), crowd(r, 300, scraper, false)))
	unusual := 0
	for range 200 {
		if !c.Usual(c.Score(scraper.draw(r))) {
			unusual++
		}
	}
	if unusual < 180 {
		t.Errorf("only %d of 200 robots are unusual", unusual)
	}
}

// world is a service that visitors come to.
type world struct {
	t  *testing.T
	c  *learn.Collector
	st *store.Memory
	r  *rand.Rand
	at time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(7, 8)), at: day}
	w.st = store.NewMemory(func() time.Time { return w.at })
	w.c = w.collector()
	return w
}

func (w *world) collector() *learn.Collector {
	now := func() time.Time { return w.at }
	c, err := learn.New(learn.Deps{Names: learn.Features, Store: w.st, Now: now, Metrics: metrics.NewSet()})
	if err == nil {
		err = c.Read(context.Background())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func cookie(n int) identity.Subject {
	s := identity.Subject{Kind: identity.KindI}
	binary.BigEndian.PutUint32(s.ID[:], uint32(n))
	return s
}

func address(n int) identity.Subject {
	s := identity.Subject{Kind: identity.KindIP}
	copy(s.ID[:], []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, byte(n >> 8), byte(n), 1})
	return s
}

func (w *world) visit(c *learn.Collector, cookieOf, addressOf int, m manner, e learn.Evidence) {
	subjects := []identity.Subject{cookie(cookieOf), address(addressOf)}
	c.See(&learn.Visit{Subjects: subjects, Service: "shop", At: w.at, X: m.draw(w.r), Evidence: e})
}

func (w *world) grade(n int) learn.Grade { return w.c.Grade(cookie(n), "shop", w.at) }

// sample is how many visitors a collector keeps.
func (w *world) sample(c *learn.Collector) learn.Counts {
	w.t.Helper()
	list, err := c.States(context.Background())
	if err != nil || len(list) != 1 {
		w.t.Fatalf("%+v, %v", list, err)
	}
	return list[0].Sample
}

func (w *world) learn() *learn.Card {
	w.t.Helper()
	card, err := w.c.Fit(context.Background(), "shop", w.at)
	if err != nil {
		w.t.Fatal(err)
	}
	return card
}

// days lets visitors come on so many days, with their subresources.
func (w *world) days(n int, come func()) {
	for range n {
		come()
		w.at = w.at.Add(24 * time.Hour)
	}
}

// TestGrades: who is known for what, and what a visitor is graded as.
func TestGrades(t *testing.T) {
	w := newWorld(t)
	w.days(2, func() {
		for n := range 300 {
			w.visit(w.c, n, n, reader, learn.Subresources)
		}
	})
	for n := 1000; n < 1400; n++ {
		w.visit(w.c, n, n, scraper, 0)
	}
	if w.visit(w.c, 0, 0, reader, 0); w.grade(0) != learn.NoOpinion {
		t.Errorf("before anything was learnt: %v", w.grade(0))
	}
	if n := w.sample(w.c); n != (learn.Counts{Others: 700}) {
		t.Errorf("after two days: %+v", n)
	}
	w.days(1, func() {
		for n := range 300 {
			w.visit(w.c, n, n, hoarder, learn.Subresources) // the vector of the moment says nothing yet
		}
	})
	if n := w.sample(w.c); n != (learn.Counts{Known: 300, Others: 400}) {
		t.Errorf("after three days: %+v", n)
	}
	if card := w.learn(); !card.Opinion() {
		t.Fatalf("%+v", card.Learnt)
	}
	next := 2000
	count := func(m manner, e learn.Evidence) (of [4]int) {
		next += 200
		for n := next - 200; n < next; n++ {
			w.visit(w.c, n, n, m, e)
			of[w.grade(n)]++
		}
		return of
	}
	if of := count(reader, 0); of[learn.Usual] < 180 || of[learn.Known] > 0 {
		t.Errorf("strangers who read: %v", of)
	}
	if of := count(scraper, learn.Solved); of[learn.Unusual] < 180 {
		t.Errorf("solvers who scrape: %v", of)
	}
	if of := count(reader, learn.Vouched); of[learn.Known] < 180 || of[learn.Unusual] > 0 {
		t.Errorf("signed in, and reading: %v", of)
	}
	if of := count(scraper, learn.Vouched); of[learn.Usual] < 180 || of[learn.Unusual] > 0 {
		t.Errorf("signed in, and scraping: %v", of)
	}
	if w.at = w.at.Add(25 * time.Hour); w.grade(2000) != learn.NoOpinion {
		t.Errorf("a day later: %v", w.grade(2000))
	}
}

// TestSignIn: what a visitor did under a cookie before it signed in shows what people do.
func TestSignIn(t *testing.T) {
	w := newWorld(t)
	w.visit(w.c, 1, 1, reader, 0)
	login := identity.TextSubject(identity.KindL, []byte("alice"))
	w.c.See(&learn.Visit{
		Subjects: []identity.Subject{login, cookie(1), address(1)}, Service: "shop", At: w.at,
		X: hoarder.draw(w.r), Evidence: learn.Vouched,
	})
	if n := w.sample(w.c); n != (learn.Counts{Known: 2}) {
		t.Errorf("%+v", n)
	}
}

// TestPoisoning: a farm of a hundred addresses and a thousand cookies, which visits for three days with subresources,
// is never more than usual, and takes no honest person's grade, whether it behaves as its robots do, as people or as
// neither. At worst there is no opinion.
func TestPoisoning(t *testing.T) {
	for name, farm := range map[string]manner{"as robots": scraper, "as people": reader, "as neither": hoarder} {
		w := newWorld(t)
		w.days(3, func() {
			for n := range 1000 {
				w.visit(w.c, 10_000+n, 10_000+n%100, farm, learn.Subresources|learn.Solved)
			}
			for n := range 250 {
				w.visit(w.c, n, n, reader, learn.Subresources)
			}
			for n := range 1000 {
				w.visit(w.c, 20_000+n, 20_000+n, []manner{reader, scraper}[n%2], 0)
			}
		})
		card := w.learn()
		var honest, robots [4]int
		for n := range 250 {
			w.visit(w.c, n, n, reader, learn.Subresources)
			honest[w.grade(n)]++
		}
		for n := range 1000 {
			w.visit(w.c, 10_000+n, 10_000+n%100, scraper, learn.Subresources|learn.Solved)
			robots[w.grade(10_000+n)]++
		}
		t.Logf("%s: honest people %v, robots of the farm %v (no opinion, unusual, usual, known); area from %.3f",
			name, honest, robots, card.Learnt.Low)
		if robots[learn.Known] > 0 || honest[learn.Unusual] > 25 {
			t.Errorf("%s: %d robots of the farm are known, %d of 250 honest people are unusual",
				name, robots[learn.Known], honest[learn.Unusual])
		}
	}
}

// TestChecks: at most 3 % of the visitors of a day may be checked for being unusual, though a third of them are.
func TestChecks(t *testing.T) {
	w := newWorld(t)
	for n := range 300 {
		w.visit(w.c, n, n, reader, learn.Vouched)
		w.visit(w.c, 1000+n, 1000+n, scraper, 0)
	}
	w.learn()
	unusual, checked := 0, 0
	for n := 2000; n < 5000; n++ {
		m := reader
		if n%3 == 0 {
			m = scraper
		}
		w.visit(w.c, n, n, m, 0)
		if w.grade(n) == learn.Unusual {
			unusual++
		}
		if w.c.MayCheck(cookie(n), "shop", w.at) {
			checked++
		}
	}
	if unusual < 900 || checked == 0 || checked > 90 {
		t.Errorf("of 3000 visitors %d are unusual, and %d may be checked", unusual, checked)
	}
}

// TestShared: processes that share a store share vectors and cards; the previous card is one call away.
func TestShared(t *testing.T) {
	w, ctx := newWorld(t), context.Background()
	other := w.collector()
	for n := range 300 {
		w.visit(w.c, n, n, reader, learn.Vouched)
		w.visit(other, 1000+n, 1000+n, scraper, 0)
	}
	if err := errors.Join(w.c.Save(ctx), other.Save(ctx)); err != nil {
		t.Fatal(err)
	}
	third := w.collector()
	w.visit(third, 5000, 5000, reader, 0) // it is asked for the service
	if err := third.Read(ctx); err != nil {
		t.Fatal(err)
	}
	if n := w.sample(third); n != (learn.Counts{Known: 300, Others: 301}) {
		t.Errorf("a process that starts has %+v", n)
	}
	if _, err := third.RollBack(ctx, "shop"); !errors.Is(err, learn.ErrNoCard) {
		t.Errorf("roll back to nothing: %v", err)
	}
	first, err := third.Fit(ctx, "shop", w.at)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Read(ctx); err != nil {
		t.Fatal(err)
	}
	if w.visit(other, 6000, 6000, reader, learn.Vouched); other.Grade(cookie(6000), "shop", w.at) == learn.NoOpinion {
		t.Error("what one has learnt, another does not know")
	}
	if _, err := third.Fit(ctx, "shop", w.at.Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	back, err := third.RollBack(ctx, "shop")
	if err != nil || !back.Learnt.At.Equal(first.Learnt.At) {
		t.Errorf("rolled back to %v: %v", back, err)
	}
	list, err := third.States(ctx)
	if err != nil || len(list) != 1 || list[0].Card.Version != first.Version || !list[0].Previous {
		t.Errorf("in use is %+v: %v", list, err)
	}
}

// TestBound: the sample is bounded, keeps both sides, and follows the same visitors from day to day.
func TestBound(t *testing.T) {
	w := newWorld(t)
	x := reader.draw(w.r)
	come := func() {
		for n := range 20_000 {
			who := []identity.Subject{cookie(n), address(n)}
			w.c.See(&learn.Visit{Subjects: who, Service: "shop", At: w.at, X: x, Evidence: learn.Subresources})
		}
	}
	w.days(2, come)
	n := w.sample(w.c)
	if n.Known != 0 || n.Others < 3000 || n.Others > 3125 {
		t.Errorf("after two days: %+v", n)
	}
	w.days(1, come)
	if n = w.sample(w.c); n.Known < 3000 || n.Known > 3125 || n.Others > 3125 {
		t.Errorf("after three days: %+v", n)
	}
	w.at = w.at.Add(40 * 24 * time.Hour)
	if err := w.c.Save(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n = w.sample(w.c); n != (learn.Counts{}) {
		t.Errorf("after 40 days without a visit: %+v", n)
	}
}

// TestForget: a visitor who is erased does not come back from the store.
func TestForget(t *testing.T) {
	w, ctx := newWorld(t), context.Background()
	w.visit(w.c, 1, 1, reader, 0)
	w.visit(w.c, 2, 2, reader, 0)
	if err := errors.Join(w.c.Save(ctx), w.c.Forget(ctx, cookie(1)), w.c.Save(ctx)); err != nil {
		t.Fatal(err)
	}
	again := w.collector()
	w.visit(again, 2, 2, reader, 0)
	if err := again.Read(ctx); err != nil {
		t.Fatal(err)
	}
	if n := w.sample(again); n != (learn.Counts{Others: 1}) {
		t.Errorf("%+v", n)
	}
}

// TestNights: the first card is learnt within minutes, and one every night, by one of the processes that share a store.
func TestNights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := newWorld(t), context.Background()
		w.st = store.NewMemory(nil)
		var set [2]*metrics.Set
		var both [2]*learn.Collector
		for i := range both {
			set[i] = metrics.NewSet()
			c, err := learn.New(learn.Deps{Names: learn.Features, Store: w.st, Metrics: set[i]})
			if err != nil {
				t.Fatal(err)
			}
			both[i] = c
			if err := c.Start(ctx); err != nil {
				t.Fatal(err)
			}
		}
		fits := func() (n uint64) {
			for _, s := range set {
				n += s.GetOrCreateCounter("antirobot_learn_fits_total").Get()
			}
			return n
		}
		w.at = time.Now()
		for n := range 40 {
			w.visit(both[n%2], n, n, reader, learn.Vouched)
			w.visit(both[n%2], 1000+n, n, scraper, 0)
		}
		if time.Sleep(3 * time.Minute); fits() != 1 {
			t.Errorf("at first: learnt %d times", fits())
		}
		if time.Sleep(2 * 24 * time.Hour); fits() != 3 {
			t.Errorf("after two nights: learnt %d times", fits())
		}
		list, err := both[1].States(ctx)
		if err != nil || len(list) != 1 || list[0].Card == nil || !list[0].Previous {
			t.Errorf("%+v, %v", list, err)
		}
		if err := errors.Join(both[0].Close(), both[1].Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestConcurrent: visits, grades, saving and learning at once.
func TestConcurrent(t *testing.T) {
	w, ctx := newWorld(t), context.Background()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for n := range 2000 {
				who := []identity.Subject{cookie(n), address(n)}
				v := learn.Visit{Subjects: who, Service: "shop", At: w.at, X: reader.draw(r)}
				if n%2 == 0 {
					v.Evidence = learn.Vouched
				}
				w.c.See(&v)
				w.c.Grade(cookie(n), "shop", w.at)
			}
		})
	}
	wg.Go(func() {
		if err := errors.Join(w.c.Save(ctx), w.c.Read(ctx), w.c.Save(ctx)); err != nil {
			t.Error(err)
		}
		_, err := w.c.Fit(ctx, "shop", w.at)
		if err != nil && !errors.Is(err, learn.ErrFew) {
			t.Error(err)
		}
	})
	wg.Wait()
	if n := w.sample(w.c); n != (learn.Counts{Known: 1000, Others: 1000}) {
		t.Errorf("%+v", n)
	}
}

// BenchmarkFit learns from as many vectors as are kept of a service.
func BenchmarkFit(b *testing.B) {
	r := rand.New(rand.NewPCG(9, 10))
	people := slices.Concat(crowd(r, 3125, reader, true), crowd(r, 1875, reader, false))
	samples := slices.Concat(people, crowd(r, 1250, scraper, false))
	for i := range samples {
		for range 7 {
			samples[i].Vectors.Add(reader.draw(r))
		}
	}
	for b.Loop() {
		fit(b, samples)
	}
}

func BenchmarkSee(b *testing.B) {
	w := newWorld(&testing.T{})
	x := reader.draw(w.r)
	v := learn.Visit{Service: "shop", At: w.at, X: x, Evidence: learn.Subresources}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		v.Subjects = []identity.Subject{cookie(n % 1_000_000), address(n % 1000)}
		w.c.See(&v)
	}
}
