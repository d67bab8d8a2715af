//go:build !race

package gateway

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"antirobot/config"
	"antirobot/request"
	"antirobot/verdict"
)

// another returns a configuration with a service that no other number has, and with an address of the first one that no other has.
func another(n int) string {
	text := strings.Replace(first, "hosts: [shop.example]", fmt.Sprintf(`hosts: [shop.example], upstream: {urls: ["http://127.0.0.1:%d"]}`, 2000+n), 1)
	return text + fmt.Sprintf("  - {name: extra%d, hosts: [extra%d.example], paths: [{prefix: /a}], rules: {text: \"stop as BLOCK\"}}\n", n, n)
}

// TestReloadsLeaveNothing reloads again and again, each time with another service and another address of a service that stays, some of them
// in vain: all of them leave what sixty-four did.
func TestReloadsLeaveNothing(t *testing.T) {
	a, read := newReloadable(t)
	a.judge.retireAfter = 0
	turn, began := 0, 0
	broken := change{"test", func(*config.Config) (func(), error) { return nil, errors.New("a fault of the test's") }}
	type held struct{ objects, metrics, indexes int }
	reload := func(times int) held {
		for range times {
			turn++
			changes := a.changes()
			if turn%4 == 0 {
				changes = append(changes, broken)
			}
			if err := a.applied(read(another(turn)), changes); (err != nil) != (turn%4 == 0) {
				t.Fatal(err)
			}
			v, err := a.Config().Resolved[0].Verdict.Settings(fmt.Sprintf("extra%d", turn), 0)
			if err != nil {
				t.Fatal(err)
			}
			v.Name = fmt.Sprintf("extra%d", turn)
			a.judge.Cacher.Took(&request.View{At: time.Now()}, v, time.Second, 0)
		}
		for i := 0; began > 0 && runtime.NumGoroutine() > began; i++ {
			if i == 1000 {
				t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), began)
			}
			time.Sleep(10 * time.Millisecond)
		}
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return held{int(m.HeapObjects), len(a.set.ListMetricNames()), len(a.judge.indexes.numbers)}
	}
	reload(keptGone)
	began = runtime.NumGoroutine() + 2
	before := reload(20)
	const times = 100
	now := reload(times)
	t.Logf("%+v, before %+v", now, before)
	if now.metrics > before.metrics+300 || now.objects > before.objects+20*times {
		t.Errorf("after %d more reloads %+v, before %+v", times, now, before)
	}
	var loads strings.Builder
	a.set.WritePrometheus(&loads)
	if n := strings.Count(loads.String(), "antirobot_service_queue{"); n > keptGone+2 {
		t.Errorf("%d services are busy", n)
	}
}

// TestGoneServicesComeBack: a service that was gone for a reload or two counts on; one that is forgotten begins anew, and the figures miss nothing
// of it.
func TestGoneServicesComeBack(t *testing.T) {
	a, read := newReloadable(t)
	a.judge.retireAfter = 0
	apply := func(text string) {
		t.Helper()
		if err := a.applied(read(text), a.changes()); err != nil {
			t.Fatal(err)
		}
	}
	const name = `antirobot_upstream_failures_total{service="extra0"}`
	apply(another(0))
	a.set.GetOrCreateCounter(name).Add(7)
	apply(another(1))
	apply(another(0))
	if n := a.set.GetOrCreateCounter(name).Get(); n != 7 || a.figures.counts()["failures"] != 7 {
		t.Errorf("one that was away for a reload has counted %d, all %v, wanted 7", n, a.figures.counts()["failures"])
	}
	for n := range 2 * keptGone {
		apply(another(1 + n))
	}
	if n := a.figures.counts()["failures"]; n != 7 {
		t.Errorf("the figures have %v of one that is forgotten, wanted 7", n)
	}
	apply(another(0))
	if n := a.set.GetOrCreateCounter(name).Get(); n != 0 || a.figures.counts()["failures"] != 7 {
		t.Errorf("one that was forgotten has counted %d, all %v, wanted 0 and 7", n, a.figures.counts()["failures"])
	}
}

// TestIndexes: numbers stay while a service is away, are bounded, and are not given to others soon.
func TestIndexes(t *testing.T) {
	var x indexes
	stays := &verdict.Settings{Index: x.of("stays", "")}
	given := map[uint16]int{stays.Index: -1}
	for n := range 70_000 {
		now := &verdict.Settings{Index: x.of("comes", fmt.Sprint("/", n))}
		if last, ok := given[now.Index]; ok && (last < 0 || n-last < 60_000) {
			t.Fatalf("%d has the number of %d", n, last)
		}
		given[now.Index] = n
		if n > 0 && x.of("comes", fmt.Sprint("/", n-1)) != now.Index-1 && now.Index != stays.Index+1 {
			t.Fatalf("%d has another number than it had", n-1)
		}
		x.trim([]*verdict.Settings{stays, now})
		if len(x.numbers) > 2+keptIndexes || len(x.numbers) != len(x.used) {
			t.Fatalf("%d numbers, %d used", len(x.numbers), len(x.used))
		}
	}
	if x.of("stays", "") != stays.Index {
		t.Error("who stayed has another number")
	}
}
