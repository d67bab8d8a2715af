package storetest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"antirobot/store"

	"pgregory.net/rapid"
)

// model is the most obvious store: one map per contract.
type model struct {
	clock *Clock
	vals  map[string]modelValue
	spent map[string]time.Time
	count map[string]modelCount
	feed  []string
}

type modelValue struct {
	val string
	end time.Time
}

type modelCount struct {
	n   int64
	end time.Time
}

func (m *model) end(ttl time.Duration) time.Time {
	if ttl == 0 {
		return time.Time{}
	}
	return m.clock.Now().Add(ttl)
}

func (m *model) gone(end time.Time) bool { return !end.IsZero() && !m.clock.Now().Before(end) }

func (m *model) forget() {
	maps.DeleteFunc(m.vals, func(_ string, v modelValue) bool { return m.gone(v.end) })
	maps.DeleteFunc(m.spent, func(_ string, end time.Time) bool { return m.gone(end) })
	maps.DeleteFunc(m.count, func(_ string, c modelCount) bool { return m.gone(c.end) })
}

// testModel compares with the model over random histories, with clock jumps and, if possible, reopening.
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
		s := open(t)
		defer func() { _ = s.Close() }() // the test is about its answers
		h := &history{
			rt: rt, t: t, o: o, s: s,
			m: &model{
				clock: o.Clock, vals: map[string]modelValue{}, spent: map[string]time.Time{},
				count: map[string]modelCount{},
			},
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": h.put, "swap": h.swap, "delete": h.delete, "spend": h.spend, "take": h.take, "incr": h.incr,
			"append": h.append, "jump": h.jump, "reopen": h.reopen, "": h.check,
		})
		s = h.s
	})
}

type history struct {
	rt *rapid.T
	t  *testing.T
	o  Options
	s  store.Store
	m  *model
}

var (
	genKey = rapid.SampledFrom([]string{"", "a", "a\x00", "a\xff", "ab", "b", "\xff", "\xff\xff"})
	genVal = rapid.SampledFrom([]string{"", "1", "2", "\x00"})
	genTTL = rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, time.Minute, 26 * time.Hour})
	genAdd = rapid.Int64Range(-5, 12)
)

func (h *history) put(rt *rapid.T) {
	k, v, ttl := genKey.Draw(rt, "key"), genVal.Draw(rt, "val"), genTTL.Draw(rt, "ttl")
	must(h.t, h.s.Put(bg, b(k), b(v), ttl))
	h.m.vals[k] = modelValue{v, h.m.end(ttl)}
}

func (h *history) swap(rt *rapid.T) {
	k, v, ttl := genKey.Draw(rt, "key"), genVal.Draw(rt, "val"), genTTL.Draw(rt, "ttl")
	var old []byte
	if rapid.Bool().Draw(rt, "expect a value") {
		old = b(genVal.Draw(rt, "old"))
	}
	cur, there := h.m.vals[k]
	want := there == (old != nil) && cur.val == string(old)
	got, err := h.s.Swap(bg, b(k), old, b(v), ttl)
	if err != nil || got != want {
		rt.Fatalf("Swap(%q, %q) = %v, %v; want %v", k, old, got, err, want)
	}
	if want {
		h.m.vals[k] = modelValue{v, h.m.end(ttl)}
	}
}

func (h *history) delete(rt *rapid.T) {
	k := genKey.Draw(rt, "key")
	must(h.t, h.s.Delete(bg, b(k)))
	delete(h.m.vals, k)
}

func (h *history) spend(rt *rapid.T) {
	k, ttl := genKey.Draw(rt, "key"), genTTL.Draw(rt, "ttl")
	_, spent := h.m.spent[k]
	got, err := h.s.Spend(bg, b(k), ttl)
	if err != nil || got == spent {
		rt.Fatalf("Spend(%q) = %v, %v; want %v", k, got, err, !spent)
	}
	if !spent {
		h.m.spent[k] = h.m.end(ttl)
	}
}

func (h *history) take(rt *rapid.T) {
	k, want, limit, ttl := genKey.Draw(rt, "key"), genAdd.Draw(rt, "want"), genAdd.Draw(rt, "limit"), genTTL.Draw(rt,
		"ttl")
	grant := max(0, min(want, limit-h.m.count[k].n))
	got, err := h.s.Take(bg, b(k), want, limit, ttl)
	if err != nil || got != grant {
		rt.Fatalf("Take(%q, %d of %d) = %d, %v; want %d", k, want, limit, got, err, grant)
	}
	h.add(k, grant, ttl)
}

func (h *history) incr(rt *rapid.T) {
	k, n, ttl := genKey.Draw(rt, "key"), genAdd.Draw(rt, "n"), genTTL.Draw(rt, "ttl")
	n = max(n, -h.m.count[k].n)
	want := h.m.count[k].n + n
	got, err := h.s.Incr(bg, b(k), n, ttl)
	if err != nil || got != want {
		rt.Fatalf("Incr(%q, %d) = %d, %v; want %d", k, n, got, err, want)
	}
	h.add(k, n, ttl)
}

func (h *history) add(k string, n int64, ttl time.Duration) {
	if n == 0 {
		return
	}
	c, there := h.m.count[k]
	if !there {
		c.end = h.m.end(ttl)
	}
	c.n += n
	h.m.count[k] = c
}

func (h *history) append(rt *rapid.T) {
	msg := genVal.Draw(rt, "msg")
	must(h.t, h.s.Append(bg, "topic", b(msg)))
	h.m.feed = append(h.m.feed, msg)
}

func (h *history) jump(rt *rapid.T) {
	h.o.Clock.Advance(rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Second - time.Millisecond, time.Second, time.Minute, 24 * time.Hour,
	}).Draw(rt, "by"))
	h.m.forget()
}

func (h *history) reopen(rt *rapid.T) {
	if h.o.Reopen == nil {
		rt.Skip("the backend forgets")
	}
	h.s = h.o.Reopen(h.t, h.s)
}

func (h *history) check(rt *rapid.T) {
	got := map[string]string{}
	err := h.s.Scan(bg, nil, func(k, v []byte, ttl time.Duration) error {
		got[string(k)] = fmt.Sprintf("%q for %v", v, ttl)
		return nil
	})
	want := map[string]string{}
	for k, v := range h.m.vals {
		left := time.Duration(0)
		if !v.end.IsZero() {
			left = v.end.Sub(h.m.clock.Now())
		}
		want[k] = fmt.Sprintf("%q for %v", v.val, left)
	}
	if err != nil || !maps.Equal(got, want) {
		rt.Fatalf("Scan gave %v, %v; want %v", got, err, want)
	}
	k := genKey.Draw(rt, "read")
	v, err := h.s.Get(bg, nil, b(k))
	if mv, there := h.m.vals[k]; there != (err == nil) || string(v) != mv.val ||
		(!there && !errors.Is(err, store.ErrNotFound)) {
		rt.Fatalf("Get(%q) = %q, %v; want %q, %v", k, v, err, mv.val, there)
	}
	if n, err := h.s.Incr(bg, b(k), 0, 0); err != nil || n != h.m.count[k].n {
		rt.Fatalf("counter %q = %d, %v; want %d", k, n, err, h.m.count[k].n)
	}
	if len(h.m.feed) == 0 {
		return
	}
	var msgs []string
	err = h.s.Follow(bg, "topic", "0", func(_ string, msg []byte) error {
		if msgs = append(msgs, string(msg)); len(msgs) == len(h.m.feed) {
			return errEnough
		}
		return nil
	})
	//nolint:errorlint // returned as it is
	if err != errEnough || strings.Join(msgs, ",") != strings.Join(h.m.feed, ",") {
		rt.Fatalf("feed is %q, %v; want %q", msgs, err, h.m.feed)
	}
}
