package stream_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/stream"
	"antirobot/stream/streamtest"
	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
)

// judgement is what a processor thought of a subject at some time.
type judgement struct {
	of string
	at time.Time
}

// judged is one of a group of processors, and everything that it thought.
type judged struct {
	link     streamtest.Link
	consumer *stream.Consumer

	mu     sync.Mutex
	scores map[judgement]string // with all factors
	twice  int
}

// joins starts a processor of its own on a stream.
func joins(t *testing.T, cfg stream.Config, log stream.Log, kv store.KV) *judged {
	t.Helper()
	m, err := formula.Load([]byte("version: test\nbias: -4\nfactors: [{name: session_pages, bins: [{from: 4, weight: 3}]}]\n"), processor.FactorNames())
	if err != nil {
		t.Fatal(err)
	}
	live := formula.NewLive(formula.Models{Model: m}, formula.Deps{Metrics: metrics.NewSet()})
	j := &judged{scores: map[judgement]string{}}
	j.link.KV = kv
	p, services := judge(t, processor.Deps{Formula: live, Observer: func(sub identity.Subject, _ uint16, at time.Time, factors []float32, score float32) {
		j.mu.Lock()
		defer j.mu.Unlock()
		k := judgement{sub.String(), at}
		if _, ok := j.scores[k]; ok {
			j.twice++
		}
		j.scores[k] = fmt.Sprint(score, factors)
	}})
	group := stream.NewGroup(cfg, stream.GroupDeps{Log: log, KV: &j.link, Logger: zerolog.Nop()})
	j.consumer = stream.NewConsumer(group, stream.ConsumerDeps{Judge: p.Process, Metrics: metrics.NewSet()})
	j.consumer.Prepare(services)()
	j.consumer.Start()
	return j
}

// course lets visitors read pages, and is interrupted for a while half-way. It returns what the processor thought that is there in the end:
// with kill it is a second one, which has taken over from the first in that while.
func course(t *testing.T, kill bool) *judged {
	cfg := stream.DefaultConfig()
	cfg.Partitions = 1
	log, kv := newMemoryLog(cfg.Partitions), store.NewMemory(nil)
	j := joins(t, cfg, log, kv)
	_, services := judge(t, processor.Deps{})
	gateway := publisher(cfg, stream.NewGroup(cfg, stream.GroupDeps{Log: log, KV: kv, Logger: zerolog.Nop()}), services)
	list := visits(8)
	for i := range list { // half of them have no cookie
		if e := &list[i]; i%2 == 0 {
			e.Subjects[0], e.N = e.Subjects[1], 1
		}
	}
	read := func(page byte) {
		for i := range list {
			e := list[i]
			e.At, e.Path, e.Facts.Target = time.Now(), e.Path+uint64(page), e.Facts.Target+uint64(page)
			if !gateway.Offer(&e) {
				t.Error("an event is not taken")
			}
			time.Sleep(time.Duration(1+i) * 7 * time.Millisecond)
		}
	}
	for page := range byte(20) {
		read(page)
	}
	if kill {
		j.link.Cut() // it can't give back what it has, nor say what it has judged since it said so last
	}
	time.Sleep(3 * cfg.Lease / 2)
	if kill {
		first := j
		j = joins(t, cfg, log, kv)
		defer first.consumer.Close()
	}
	time.Sleep(3 * cfg.Lease / 2)
	for page := range byte(20) {
		read(20 + page)
	}
	time.Sleep(time.Second)
	for _, close := range []func() error{gateway.Close, j.consumer.Close, log.Close, kv.Close} {
		if err := close(); err != nil {
			t.Error(err)
		}
	}
	return j
}

// TestASuccessorThinksAlike: who takes a partition over from a processor that has died thinks of each visitor, each time, what one that has
// seen everything thinks, with the same factors, and of nothing twice.
func TestASuccessorThinksAlike(t *testing.T) {
	var want, got *judged
	synctest.Test(t, func(t *testing.T) { want = course(t, false) })
	synctest.Test(t, func(t *testing.T) { got = course(t, true) })
	if len(want.scores) < 30 {
		t.Fatalf("only %d evaluations", len(want.scores))
	}
	if got.twice > 0 {
		t.Errorf("%d evaluations were made twice", got.twice)
	}
	if maps.Equal(want.scores, got.scores) {
		return
	}
	t.Errorf("%d evaluations by the successor, want %d", len(got.scores), len(want.scores))
	for k, score := range want.scores {
		if got.scores[k] != score {
			t.Fatalf("%s at %v: the successor has\n%s\nwant\n%s", k.of, k.at, got.scores[k], score)
		}
	}
}
