package queue

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/spravka"
	"antirobot/store"
	"antirobot/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a queue over a store that is looked into.
type world struct {
	*Queue
	t     *testing.T
	store store.Store
	clock *storetest.Clock
	ring  *spravka.Ring
	sent  []string // bodies that were delivered
	say   func() (Answer, error)
}

func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	clock := storetest.NewClock()
	st := store.NewMemory(clock.Now)
	t.Cleanup(func() { _ = st.Close() })
	w := &world{t: t, store: st, clock: clock, say: func() (Answer, error) { return Answer{Status: 200}, nil }}
	w.Queue = w.another(change)
	return w
}

// another is a second gateway on the same store.
func (w *world) another(change func(*Config)) *Queue {
	w.t.Helper()
	if w.ring == nil {
		ring, _, err := spravka.LoadOrMakeRing(filepath.Join(w.t.TempDir(), "keys.json"), w.clock.Now())
		if err != nil {
			w.t.Fatal(err)
		}
		w.ring = ring
	}
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	q, err := New(cfg, Deps{Store: w.store, Keys: spravka.NewKeys(w.ring), Now: w.clock.Now, Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		w.t.Fatal(err)
	}
	q.deliver = func(_ context.Context, _ *Item, r *Request) (Answer, error) {
		w.sent = append(w.sent, string(r.Body))
		return w.say()
	}
	return q
}

func (w *world) hold(text, client string) (*Item, error) {
	it := &Item{
		Service: "book", Route: "POST /comments", Client: client, Subject: "ip:" + client, Method: "POST", Host: "book.example", Proto: "https",
		Target: "/comments?draft=1", Message: map[string]any{"text": text}, Decision: "QUEUE",
	}
	r := &Request{Fields: []Field{{"Content-Type", "text/plain"}, {"Cookie", "sid=secret"}}, Body: []byte(text)}
	return it, w.Hold(w.t.Context(), it, r, [32]byte([]byte(fmt.Sprintf("%-32s", text))))
}

func (w *world) must(it *Item, err error) *Item {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return it
}

func (w *world) stored() (all string) {
	_ = w.store.Scan(w.t.Context(), nil, func(k, v []byte, _ time.Duration) error {
		all += string(k) + "=" + string(v) + "\n"
		return nil
	})
	return all
}

// TestApprove: an approved message is delivered with the body that it had, and only a record without text is left.
func TestApprove(t *testing.T) {
	w := newWorld(t, nil)
	it := w.must(w.hold("is this allowed here", "192.0.2.1"))
	if all := w.stored(); strings.Contains(all, "allowed") || strings.Contains(all, "secret") || strings.Contains(all, "192.0.2") {
		t.Errorf("the store shows what was sent:\n%s", all)
	}
	if again := w.must(w.hold("is this allowed here", "192.0.2.1")); again.ID != it.ID {
		t.Error("the same message waits twice")
	}
	got := w.must(w.Get(t.Context(), it.ID))
	if got.State != Waiting || got.Message["text"] != "is this allowed here" || got.Bytes != 20 {
		t.Errorf("%+v", got)
	}
	done := w.must(w.another(nil).Approve(t.Context(), it.ID))
	if done.State != Delivered || done.Status != 200 || len(w.sent) != 1 || w.sent[0] != "is this allowed here" {
		t.Errorf("%+v, sent %q", done, w.sent)
	}
	if done.Message != nil || done.Client != "" || done.Subject != "" || done.Target != "/comments" {
		t.Errorf("the record keeps %+v", done)
	}
	if _, err := w.Request(t.Context(), it.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("the request is kept: %v", err)
	}
	if _, err := w.Approve(t.Context(), it.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("approved twice: %v", err)
	}
	w.clock.Advance(25 * time.Hour)
	if _, err := w.Get(t.Context(), it.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("the record stays: %v", err)
	}
}

// TestDeliveryFails: a failed delivery is tried again, later each time, and in the end shown as failed; a refusal of the
// service is final until somebody approves again.
func TestDeliveryFails(t *testing.T) {
	w := newWorld(t, nil)
	it := w.must(w.hold("one", "192.0.2.1"))
	w.say = func() (Answer, error) { return Answer{}, errors.New("nobody is there") }
	got := w.must(w.Approve(t.Context(), it.ID))
	if got.State != Approved || got.Attempts != 1 || got.Error != "nobody is there" || !got.Next.After(w.clock.Now()) {
		t.Fatalf("%+v", got)
	}
	if err := w.deliverDue(t.Context()); err != nil || len(w.sent) != 1 {
		t.Errorf("tried before its time: %v, %d", err, len(w.sent))
	}
	if _, err := w.Refuse(t.Context(), it.ID); !errors.Is(err, ErrState) {
		t.Errorf("refused under way: %v", err)
	}
	for range maxAttempts - 1 {
		w.clock.Advance(time.Hour)
		if err := w.deliverDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got = w.must(w.Get(t.Context(), it.ID)); got.State != Failed || got.Attempts != maxAttempts || got.Message["text"] != "one" {
		t.Errorf("%+v", got)
	}
	w.clock.Advance(time.Hour)
	if err := w.deliverDue(t.Context()); err != nil || len(w.sent) != maxAttempts {
		t.Errorf("tried after all: %v, %d", err, len(w.sent))
	}
	w.say = func() (Answer, error) { return Answer{Status: 403}, nil }
	if got = w.must(w.Approve(t.Context(), it.ID)); got.State != Failed || got.Status != 403 || got.Attempts != 1 {
		t.Errorf("after a refusal: %+v", got)
	}
	w.say = func() (Answer, error) { return Answer{Status: 303, Location: "/thanks?id=5"}, nil }
	if got = w.must(w.Approve(t.Context(), it.ID)); got.State != Delivered || got.Location != "/thanks" {
		t.Errorf("in the end: %+v", got)
	}
}

// TestCrashedDelivery: a gateway that dies while it delivers leaves the message to the next one, after a while.
func TestCrashedDelivery(t *testing.T) {
	w := newWorld(t, nil)
	it := w.must(w.hold("one", "192.0.2.1"))
	ctx, crash := context.WithCancelCause(t.Context())
	other := w.another(nil)
	w.Queue.deliver = func(context.Context, *Item, *Request) (Answer, error) {
		if err := other.deliverDue(t.Context()); err != nil || len(w.sent) > 0 {
			t.Errorf("delivered by two at once: %v, %q", err, w.sent)
		}
		crash(errors.New("killed"))
		panic("killed")
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = w.Approve(ctx, it.ID)
	}()
	w.clock.Advance(time.Minute)
	if err := other.deliverDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.must(w.Get(t.Context(), it.ID)); got.State != Delivered || got.Attempts != 2 || len(w.sent) != 1 {
		t.Errorf("%+v, sent %q", got, w.sent)
	}
}

// TestBounds: the queue, what one network may add, and the size of a request are bounded, and places come back.
func TestBounds(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxEntries, c.MaxAge = 40, time.Hour })
	full := func(text, client string) {
		t.Helper()
		if it, err := w.hold(text, client); !errors.Is(err, ErrFull) {
			t.Errorf("%s by %s: %+v, %v", text, client, it, err)
		}
	}
	first := w.must(w.hold("a", "192.0.2.1"))
	for n := range 19 {
		w.must(w.hold("b", fmt.Sprint("192.0.2.", n+2)))
	}
	full("c", "192.0.2.77")
	full(strings.Repeat("x", 2<<20), "198.51.100.1")
	for n := range 20 {
		w.must(w.hold("c", fmt.Sprintf("2001:db8:1:%x::1", n)))
	}
	full("e", "2001:db8:1:77::1")
	full("e", "203.0.113.1")
	if got := w.must(w.Refuse(t.Context(), first.ID)); got.State != Refused || got.Message != nil {
		t.Errorf("refused: %+v", got)
	}
	w.must(w.hold("e", "203.0.113.1"))
	full("f", "198.51.100.1")
	w.clock.Advance(2 * time.Hour) // all are too old
	if err := w.recount(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.must(w.hold("f", "198.51.100.1"))
	if all, err := w.List(t.Context(), Filter{State: Waiting}); err != nil || len(all) != 1 {
		t.Errorf("%d wait, %v", len(all), err)
	}
}

// TestErase: one call erases everything of a sender, records included.
func TestErase(t *testing.T) {
	w := newWorld(t, nil)
	for i, client := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2"} {
		w.must(w.hold(fmt.Sprint("text ", i), client))
	}
	if n, err := w.EraseAll(t.Context(), Filter{Sender: "192.0.2.1"}); n != 2 || err != nil {
		t.Errorf("%d erased, %v", n, err)
	}
	all, err := w.List(t.Context(), Filter{})
	if err != nil || len(all) != 1 || all[0].Client != "192.0.2.2" {
		t.Errorf("%v, %v", all, err)
	}
	if n, err := w.store.Incr(t.Context(), []byte(countKey), 0, 0); n != 1 || err != nil {
		t.Errorf("%d places are taken, %v", n, err)
	}
	if err := w.Erase(t.Context(), all[0].ID); err != nil {
		t.Fatal(err)
	}
	if left := w.stored(); strings.Contains(left, headPrefix) || strings.Contains(left, bodyPrefix) || strings.Contains(left, donePrefix) {
		t.Errorf("left: %s", left)
	}
	if err := w.Erase(t.Context(), all[0].ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("erased twice: %v", err)
	}
}

// TestStart: what was approved before a restart is delivered after it.
func TestStart(t *testing.T) {
	w := newWorld(t, nil)
	it := w.must(w.hold("one", "192.0.2.1"))
	w.say = func() (Answer, error) { return Answer{}, errors.New("away") }
	w.must(w.Approve(t.Context(), it.ID))
	w.clock.Advance(time.Hour)
	came := make(chan string, 1)
	next := w.another(nil)
	next.Start(func(_ context.Context, _ *Item, r *Request) (Answer, error) {
		came <- string(r.Body)
		return Answer{Status: 204}, nil
	})
	defer next.Close()
	select {
	case body := <-came:
		if body != "one" {
			t.Error(body)
		}
	case <-time.After(time.Minute):
		t.Error("it was not delivered")
	}
}

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{WebhookSecret: "short"}.Validate()
	for _, key := range []string{"max_entries", "max_age", "webhook_secret"} {
		if err == nil || !strings.Contains(err.Error(), key+":") {
			t.Errorf("%s is not checked: %v", key, err)
		}
	}
}
