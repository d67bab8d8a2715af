package cbb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"antirobot/identity"
)

// The overlay compared with a plain list of entries, under many changes.
func TestOverlayAgreesWithASlowOne(t *testing.T) {
	l := node(t, newFakeStore(), nil)
	r := rand.New(rand.NewPCG(7, 7))
	type key struct {
		f       Flag
		e       string
		service string
	}
	there := map[key]item{}
	now := time.Now()
	for n := range 3000 {
		k := key{Flag(r.IntN(3)), "", []string{"", "", "shop"}[r.IntN(3)]}
		switch r.IntN(4) {
		case 0:
			k.e = fmt.Sprintf("ip:10.0.%d.%d", r.IntN(2), r.IntN(8))
		case 1:
			k.e = fmt.Sprintf("10.0.0.%d-10.0.1.%d", r.IntN(8), r.IntN(8))
		default:
			it, _ := parseItem(fmt.Sprintf("10.0.%d.%d/%d", r.IntN(2), r.IntN(8), 22+r.IntN(11)))
			k.e = it.String()
		}
		if r.IntN(2) == 0 {
			if err := l.Add(t.Context(), k.f, k.e, 0, "", k.service); err != nil {
				t.Fatal(err)
			}
			there[k], _ = parseItem(k.e)
		} else {
			err := l.Remove(t.Context(), k.f, k.e, k.service)
			if _, ok := there[k]; ok != (err == nil) {
				t.Fatalf("%v: %v", k, err)
			}
			delete(there, k)
		}
		if n%10 > 0 {
			continue
		}
		for range 10 {
			v, id := newRequest(fmt.Sprintf("10.0.%d.%d", r.IntN(2), r.IntN(8)), "/")
			v.At = now
			service := []string{"", "shop"}[r.IntN(2)]
			var want [slots]bool
			for k, it := range there {
				in := it.subject.Kind != identity.KindNone && it.subject == id.Subjects[0] ||
					it.lo.IsValid() && it.lo.Compare(id.Addr) <= 0 && id.Addr.Compare(it.hi) <= 0
				if in && (k.service == "" || k.service == service) {
					want[(&Entry{Flag: k.f, Own: true}).slot()] = true
				}
			}
			var m Match
			l.Lookup(&m, v, id, service)
			for i := range want {
				if got := *m.at(i) != nil; got != want[i] {
					t.Fatalf("%v for %q: place %d is %v, want %v of %v", id.Addr, service, i, got, want[i], there)
				}
			}
		}
	}
	for k := range there {
		if err := l.Remove(t.Context(), k.f, k.e, k.service); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.live.over.nets.Load().Size(); n != 0 || l.live.over.nsubj.Load() != 0 {
		t.Errorf("%d prefixes and %d subjects are left", n, l.live.over.nsubj.Load())
	}
}

// Under -race: readers never see a half-made change.
func TestLookupWhileEverythingChanges(t *testing.T) {
	l := node(t, newFakeStore(), func(c *Config) { c.White = []string{"10.0.0.1"} })
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			v, id := newRequest("10.0.0.1", "/x", "User-Agent", "curl/8")
			var m Match
			for ctx.Err() == nil {
				if l.Lookup(&m, v, id, ""); m.White == nil {
					t.Error("a list entry was gone for a moment")
					return
				}
			}
		})
	}
	for i := range 200 {
		e := fmt.Sprintf("10.0.0.%d", i%5)
		_ = l.Add(t.Context(), Block, e, time.Hour, "", "")
		if i%3 == 0 {
			_ = l.Remove(t.Context(), Block, e, "")
		}
		if i%20 == 0 {
			if err := reconfigure(l, config(func(c *Config) { c.White = []string{"10.0.0.1", fmt.Sprintf("10.1.0.%d", i)} })); err != nil {
				t.Error(err)
			}
		}
		l.Stats()
	}
	stop()
	wg.Wait()
}
