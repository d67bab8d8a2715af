package storetest

import (
	"errors"
	"maps"
	"testing"
	"time"

	"antirobot/store"

	"pgregory.net/rapid"
)

// testModel compares the backend with store.Memory over random histories, with clock jumps and, if possible,
// reopening.
func testModel(t *testing.T, open func(t *testing.T) store.Store, o Options) {
	if o.Clock == nil {
		t.Skip("the backend reads the machine's clock")
	}
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		if o.Reopen != nil && run > 20 { // opening is slow on a disk
			return
		}
		s, m := open(t), store.NewMemory(o.Clock.Now)
		defer func() { _ = errors.Join(s.Close(), m.Close()) }() // the test is about their answers
		key := func(rt *rapid.T) []byte { return b(genKey.Draw(rt, "key")) }
		val := func(rt *rapid.T) []byte { return b(genVal.Draw(rt, "val")) }
		ttl := func(rt *rapid.T) time.Duration { return genTTL.Draw(rt, "ttl") }
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				k, v, ttl := key(rt), val(rt), ttl(rt)
				must(t, errors.Join(s.Put(bg, k, v, ttl), m.Put(bg, k, v, ttl)))
			},
			"swap": func(rt *rapid.T) {
				k, v, ttl, old := key(rt), val(rt), ttl(rt), []byte(nil)
				if rapid.Bool().Draw(rt, "expect a value") {
					old = val(rt)
				}
				both(rt, s, m, func(s store.Store) (bool, error) { return s.Swap(bg, k, old, v, ttl) })
			},
			"delete": func(rt *rapid.T) {
				k := key(rt)
				must(t, errors.Join(s.Delete(bg, k), m.Delete(bg, k)))
			},
			"spend": func(rt *rapid.T) {
				k, ttl := key(rt), ttl(rt)
				both(rt, s, m, func(s store.Store) (bool, error) { return s.Spend(bg, k, ttl) })
			},
			"take": func(rt *rapid.T) {
				k, want, limit, ttl := key(rt), genAdd.Draw(rt, "want"), genAdd.Draw(rt, "limit"), ttl(rt)
				both(rt, s, m, func(s store.Store) (int64, error) { return s.Take(bg, k, want, limit, ttl) })
			},
			"incr": func(rt *rapid.T) {
				k, n, ttl := key(rt), genAdd.Draw(rt, "n"), ttl(rt)
				both(rt, s, m, func(s store.Store) (int64, error) { return s.Incr(bg, k, n, ttl) })
			},
			"append": func(rt *rapid.T) {
				v := val(rt)
				must(t, errors.Join(s.Append(bg, "topic", v), m.Append(bg, "topic", v)))
			},
			"jump": func(rt *rapid.T) { o.Clock.Advance(genJump.Draw(rt, "by")) },
			"reopen": func(rt *rapid.T) {
				if o.Reopen == nil {
					rt.Skip("the backend forgets")
				}
				s = o.Reopen(t, s)
			},
			"": func(rt *rapid.T) {
				k := key(rt)
				both(rt, s, m, func(s store.Store) (string, error) {
					v, err := s.Get(bg, nil, k)
					if errors.Is(err, store.ErrNotFound) {
						return "absent", nil
					}
					return "=" + string(v), err
				})
				both(rt, s, m, func(s store.Store) (int64, error) { return s.Incr(bg, k, 0, 0) })
				both(rt, s, m, func(s store.Store) (string, error) { return s.Position(bg, "topic") })
				compare(rt, scan(t, s, ""), scan(t, m, ""))
				if end, err := s.Position(bg, "topic"); err == nil && end != store.FormatPosition(0) {
					compare(rt, messages(rt, s, end), messages(rt, m, end))
				}
			},
		})
	})
}

var (
	genKey  = rapid.SampledFrom([]string{"", "a", "a\x00", "a\xff", "ab", "b", "\xff", "\xff\xff"})
	genVal  = rapid.SampledFrom([]string{"", "1", "2", "\x00"})
	genTTL  = rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, time.Minute, 26 * time.Hour})
	genJump = rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Second - time.Millisecond, time.Second, time.Minute, 24 * time.Hour,
	})
	genAdd = rapid.Int64Range(-5, 12)
)

// both compares the results of a call.
func both[T comparable](rt *rapid.T, s, m store.Store, call func(store.Store) (T, error)) {
	rt.Helper()
	got, err := call(s)
	want, mine := call(m)
	if err != nil || mine != nil || got != want {
		rt.Fatalf("got %v, %v; store.Memory gives %v, %v", got, err, want, mine)
	}
}

func compare[V comparable](rt *rapid.T, got, want map[string]V) {
	rt.Helper()
	if !maps.Equal(got, want) {
		rt.Fatalf("got %v; store.Memory gives %v", got, want)
	}
}

// messages returns the messages of a topic by position, up to the last.
func messages(rt *rapid.T, s store.Store, last string) map[string]string {
	got := map[string]string{}
	err := s.Follow(bg, "topic", "0", func(pos string, msg []byte) error {
		if got[pos] = string(msg); pos == last {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		rt.Fatal(err)
	}
	return got
}
