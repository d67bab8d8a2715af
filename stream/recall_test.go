package stream_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/identity"
	"antirobot/stream"
	"antirobot/verdict"
	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
)

// thoughts collects what a processor thinks.
type thoughts struct {
	mu     sync.Mutex
	scores map[judgement][]string // the score, then all factors
}

// thinks makes a processor with a formula.
func thinks(t *testing.T, d processor.Deps) (*processor.Processor, *stream.Services, *thoughts) {
	t.Helper()
	m, err := formula.Load([]byte("version: test\nbias: -4\nfactors: [{name: session_pages, bins: [{from: 4, weight: 3}]}]\n"), processor.FactorNames())
	if err != nil {
		t.Fatal(err)
	}
	d.Formula = formula.NewLive(formula.Models{Model: m}, formula.Deps{Metrics: metrics.NewSet()})
	th := &thoughts{scores: map[judgement][]string{}}
	d.Observer = func(sub identity.Subject, _ uint16, at time.Time, factors []float32, score float32) {
		th.mu.Lock()
		defer th.mu.Unlock()
		list := []string{fmt.Sprint("score ", score)}
		for i, name := range processor.FactorNames() {
			list = append(list, fmt.Sprint(name, " ", factors[i]))
		}
		th.scores[judgement{sub.String(), at}] = list
	}
	p, services := judge(t, d)
	return p, services, th
}

// openRestartLog opens the restart log of a directory at a time.
func openRestartLog(t *testing.T, dir string, now time.Time, services *stream.Services) *stream.RestartLog {
	t.Helper()
	y, err := stream.OpenRestartLog(stream.RestartLogDeps{Dir: dir, Keep: 24 * time.Hour, Metrics: metrics.NewSet(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	y.Prepare(services)()
	return y
}

// TestARestartThinksAlike: a process that has read its restart log thinks of each visitor what one that has run all the time thinks, with
// the same factors. Within a day: who has come on a second one is known in the store, and the past is read knowing it.
func TestARestartThinksAlike(t *testing.T) {
	list := visits(40)
	var day []verdict.Event
	begin := time.Now().Truncate(24 * time.Hour)
	end := begin.Add(10 * time.Hour)
	for page := range byte(40) {
		for i := range list {
			e := list[i]
			e.At = begin.Add(time.Duration(page)*13*time.Minute + time.Duration(i*i%97)*time.Second)
			e.Path, e.Facts.Target = e.Path+uint64(page), e.Facts.Target+uint64(page)
			if i%2 == 0 { // half of them have no cookie
				e.Subjects[0], e.N = e.Subjects[1], 1
			}
			day = append(day, e)
		}
	}
	half := len(day) / 2
	whole, _, want := thinks(t, processor.Deps{})
	for i := range day {
		whole.Process(&day[i])
	}

	dir := t.TempDir()
	first, services, _ := thinks(t, processor.Deps{})
	y := openRestartLog(t, dir, end, services)
	for i := range day[:half] {
		first.Process(&day[i])
		y.Add(&day[i])
	}
	must(t, y.Close())

	var judged sync.WaitGroup
	judged.Add(len(day) - half)
	y = openRestartLog(t, dir, end, services)
	defer y.Close()
	second, _, got := thinks(t, processor.Deps{Judged: func(e *verdict.Event) { y.Add(e); judged.Done() }, Waits: true})
	must(t, second.Start(context.Background()))
	defer second.Close()
	for i := range day[half:] { // what comes in the meantime waits
		if !second.Offer(&day[half+i]) {
			t.Fatal("an event is not taken")
		}
	}
	if n := len(got.scores); n != 0 {
		t.Errorf("%d evaluations before the past was read", n)
	}
	second.Recall(y.Read)
	judged.Wait()
	if len(want.scores) < 100 || len(got.scores) != len(want.scores) {
		t.Errorf("%d evaluations, want %d, more than 100", len(got.scores), len(want.scores))
	}
	for k, list := range want.scores {
		if slices.Equal(got.scores[k], list) {
			continue
		}
		t.Errorf("%s at %v: after the restart it thinks otherwise", k.of, k.at)
		for i, s := range got.scores[k] {
			if s != list[i] {
				t.Errorf("%s, want %s", s, list[i])
			}
		}
		break
	}
}

// TestRecallEnds: a process that is to end while it reads its past ends.
func TestRecallEnds(t *testing.T) {
	p, _, _ := thinks(t, processor.Deps{Waits: true})
	must(t, p.Start(context.Background()))
	e := visits(1)[0]
	e.At = time.Now()
	reads := make(chan struct{})
	p.Recall(func(ctx context.Context, f func(e *verdict.Event)) (n int) {
		close(reads)
		for ; ctx.Err() == nil; n++ {
			f(&e)
		}
		return n
	})
	<-reads
	must(t, p.Close())
}

// BenchmarkRestartLog writes down b.N events, and judges them once more: what each costs, beside judging alone.
func BenchmarkRestartLog(b *testing.B) {
	list := visits(1 << 16)
	at := func(i int) *verdict.Event {
		e := &list[i%len(list)]
		e.At = time.Now().Add(-time.Hour).Truncate(time.Second).Add(time.Duration(i) * 5 * time.Microsecond)
		return e
	}
	b.Run("judge", func(b *testing.B) {
		p, _ := judge(b, processor.Deps{})
		for i := range b.N {
			p.Process(at(i))
		}
	})
	dir := b.TempDir()
	_, services := judge(b, processor.Deps{})
	open := func(b *testing.B) *stream.RestartLog {
		y, err := stream.OpenRestartLog(stream.RestartLogDeps{Dir: dir, Keep: 24 * time.Hour, Bytes: 1 << 30, Metrics: metrics.NewSet()})
		if err != nil {
			b.Fatal(err)
		}
		y.Prepare(services)()
		return y
	}
	b.Run("write", func(b *testing.B) {
		y := open(b)
		for i := range b.N {
			y.Add(at(i))
		}
		must(b, y.Close())
	})
	b.Run("read and judge", func(b *testing.B) {
		p, _ := judge(b, processor.Deps{Waits: true})
		y := open(b)
		defer y.Close()
		cpu, n := cpuTime(), 0
		done := make(chan struct{})
		p.Recall(func(ctx context.Context, f func(e *verdict.Event)) int {
			defer close(done)
			n = y.Read(ctx, f)
			return n
		})
		<-done
		must(b, p.Close())
		b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(max(n, 1)), "ns-cpu/event")
		b.ReportMetric(float64(n), "events")
	})
}
