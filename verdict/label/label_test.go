package label

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/verdict/replicate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func someone(n int) identity.Subject {
	s := identity.Subject{Kind: identity.KindI}
	copy(s.ID[:], fmt.Sprintf("subject-%08d", n))
	return s
}

func open(t *testing.T, cfg Config, st store.Store) *Table {
	t.Helper()
	table, err := New(cfg, Deps{Store: st, Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return table
}

func TestReadField(t *testing.T) {
	f := func(in string, want Mark, ok bool) {
		t.Helper()
		if got, is := ReadField([]byte(in)); got != want || is != ok {
			t.Errorf("%q: %v %v, want %v %v", in, got, is, want, ok)
		}
	}
	f("customer", Mark{Human, Customer}, true)
	f(" signed-in ", Mark{Human, SignedIn}, true)
	f("paid", Mark{Human, Paid}, true)
	f("posted", Mark{Human, Posted}, true)
	f("human", Mark{Human, Service}, true)
	f("robot", Mark{Robot, Service}, true)
	for _, bad := range []string{"", "operator", "service", "Customer", "customer, robot", "none"} {
		f(bad, Mark{}, false)
	}
}

// TestTableRemembers: labels are there after a restart, an operator's outweighs a service's, and a removed one is gone.
func TestTableRemembers(t *testing.T) {
	st := store.NewMemory(nil)
	table := open(t, DefaultConfig(), st)
	ctx := context.Background()
	if err := table.Set(ctx, Entry{Subject: someone(1), Mark: Mark{Label: Robot}, At: noon, Reason: "copies prices"}); err != nil {
		t.Fatal(err)
	}
	if table.Note(someone(1), Mark{Human, Customer}, noon) {
		t.Error("a service outweighs an operator")
	}
	if !table.Note(someone(2), Mark{Human, Customer}, noon) || !table.Note(someone(3), Mark{Human, Paid}, noon) {
		t.Error("a word of a service is not taken")
	}
	if had, err := table.Remove(ctx, someone(3)); !had || err != nil {
		t.Errorf("removed: %v, %v", had, err)
	}
	if had, err := table.Remove(ctx, someone(3)); had || err != nil {
		t.Errorf("removed again: %v, %v", had, err)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, DefaultConfig(), st)
	defer again.Close()
	f := func(n int, want Mark) {
		t.Helper()
		if got := again.Of(someone(n)); got != want {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
	f(1, Mark{Robot, Operator})
	f(2, Mark{Human, Customer})
	f(3, Mark{})
	for _, e := range again.All() {
		if e.Source == Operator && e.Reason != "copies prices" {
			t.Errorf("%+v", e)
		}
	}
}

// TestTableIsBounded: services' words make room for each other and for operators; operators' labels stay.
func TestTableIsBounded(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Max = 10
	table := open(t, cfg, store.NewMemory(nil))
	defer table.Close()
	for n := range 50 {
		table.Note(someone(n), Mark{Human, Customer}, noon.Add(time.Duration(n)*time.Second))
	}
	if n := len(table.All()); n != 10 || table.Of(someone(49)) == (Mark{}) {
		t.Errorf("%d labels, the last one is there: %v", n, table.Of(someone(49)))
	}
	for n := range 10 {
		if err := table.Set(t.Context(), Entry{Subject: someone(100 + n), Mark: Mark{Label: Human}, At: noon}); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Set(t.Context(), Entry{Subject: someone(200), Mark: Mark{Label: Human}, At: noon}); !errors.Is(err, ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	if table.Note(someone(201), Mark{Human, Paid}, noon) || len(table.All()) != 10 {
		t.Error("a service's word pushes an operator's out")
	}
}

// failing is a store that is away, and shared.
type failing struct {
	*store.Memory
	away atomic.Bool
}

func (f *failing) Shared() bool { return true }

func (f *failing) Put(ctx context.Context, k, v []byte, ttl time.Duration) error {
	if f.away.Load() {
		return errors.New("away")
	}
	return f.Memory.Put(ctx, k, v, ttl)
}

// TestTableWaitsForTheStore: a label holds here at once and is written when the store is back; what other gateways have
// set or removed is seen within a minute.
func TestTableWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &failing{Memory: store.NewMemory(nil)}
		st.away.Store(true)
		defer st.Close()
		cfg := DefaultConfig()
		cfg.Keep = 24 * time.Hour
		here := open(t, cfg, st)
		defer here.Close()
		if err := here.Set(t.Context(), Entry{Subject: someone(1), Mark: Mark{Label: Robot}, At: time.Now()}); err == nil {
			t.Error("nobody says that the store is away")
		}
		if here.Of(someone(1)).Label != Robot {
			t.Error("it does not hold here")
		}
		there := open(t, cfg, st)
		defer there.Close()
		synctest.Wait()
		st.away.Store(false)
		time.Sleep(2 * tidyEvery)
		synctest.Wait()
		if there.Of(someone(1)).Label != Robot {
			t.Error("the other gateway does not know it")
		}
		if _, err := there.Remove(t.Context(), someone(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * tidyEvery)
		synctest.Wait()
		if here.Of(someone(1)).Label != None {
			t.Error("the label that was removed there is still here")
		}
		here.Note(someone(2), Mark{Human, Customer}, time.Now())
		time.Sleep(cfg.Keep + 2*tidyEvery)
		synctest.Wait()
		if n := len(here.All()); n != 0 {
			t.Errorf("%d labels are never forgotten", n)
		}
	})
}

func record(e Entry) []byte {
	c := replicate.Writer(nil, 0)
	e.code(c)
	return c.Bytes()
}

// FuzzReadEntry: what is read can be written and is read the same.
func FuzzReadEntry(f *testing.F) {
	s := someone(1)
	good := Entry{Subject: s, Mark: Mark{Robot, Operator}, At: noon, Reason: "why"}
	f.Add(key(s)[len(prefix):], record(good))
	f.Add([]byte{}, []byte{1, 2})
	f.Fuzz(func(t *testing.T, key, val []byte) {
		e, err := readEntry(key, val)
		if err != nil {
			return
		}
		again, err := readEntry(key, record(e))
		if err != nil || again != e {
			t.Errorf("%+v, then %+v, %v", e, again, err)
		}
	})
}
