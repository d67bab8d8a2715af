package verdict

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"antirobot/identity"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killEnv); dir != "" {
		killedChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

var ctx = context.Background()

func TestBanEndsExactly(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	w.ban(ip("192.0.2.1"), func(b *Ban) { b.Until = w.now().Add(time.Second) })
	w.clock.advance(time.Second - 1)
	if w.ask(s, "192.0.2.1").Verdict != Robot {
		t.Error("over a nanosecond too early")
	}
	w.clock.advance(1)
	if w.ask(s, "192.0.2.1").Verdict != Human {
		t.Error("over too late")
	}
}

func TestBanIsRefused(t *testing.T) {
	w := newWorld(t)
	good := Ban{Subject: ip("192.0.2.1"), Until: w.now().Add(time.Minute)}
	f := func(name string, edit func(*Ban)) {
		t.Helper()
		b := good
		edit(&b)
		if err := w.Ban(ctx, b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	f("no subject", func(b *Ban) { b.Subject = identity.Subject{} })
	f("in the past", func(b *Ban) { b.Until = w.now() })
	f("score", func(b *Ban) { b.Score = 1.1 })
	f("no score", func(b *Ban) { b.Score = float32(math.NaN()) })
	f("threshold", func(b *Ban) { b.Threshold = float32(math.NaN()) })
	f("factor", func(b *Ban) { b.Factors[0] = Factor{Name: "x", Value: float32(math.Inf(1))} })
	f("long reason", func(b *Ban) { b.Reason = string(make([]byte, 513)) })
	f("long service", func(b *Ban) { b.Service = string(make([]byte, 65)) })
	if n := len(w.Bans(BanFilter{})); n != 0 {
		t.Errorf("%d bans", n)
	}
}

// TestBanTableAgainstMap makes and lifts random bans while time passes, and compares the table with an obvious map.
func TestBanTableAgainstMap(t *testing.T) {
	services := []string{"", "shop", "mail"}
	rapid.Check(t, func(t *rapid.T) {
		table := newBanTable(1000)
		ref := map[banKey]Ban{}
		at := day0
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			b := Ban{
				Subject: sub(identity.KindI, rapid.IntRange(0, 5).Draw(t, "subject")),
				Source:  Source(rapid.IntRange(0, 1).Draw(t, "source")),
				Service: rapid.SampledFrom(services).Draw(t, "service"),
				Until:   at.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "for"))), Made: at, Score: 1,
			}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				if err := table.Put(&b, false, at.UnixNano()); err != nil {
					t.Fatal(err)
				}
				ref[b.key()] = b
			case 2:
				old, had := ref[b.key()]
				if got := table.Remove(b.key(), at.UnixNano()); got != had && old.Until.After(at) {
					t.Fatalf("remove: %v, want %v", got, had)
				}
				delete(ref, b.key())
			default:
				at = at.Add(time.Duration(rapid.IntRange(0, 8).Draw(t, "wait")))
				table.Sweep(at.UnixNano())
			}
			for k, r := range ref {
				if !r.Until.After(at) {
					delete(ref, k)
				}
			}
			for i := range 6 {
				for _, name := range services[1:] {
					s := &Settings{Name: name}
					var want time.Time
					for k, r := range ref {
						if k.subject == sub(identity.KindI, i) && r.Holds(s) && r.Until.After(want) {
							want = r.Until
						}
					}
					var got Ban
					if ok := table.Lookup(&got, sub(identity.KindI, i), s, at.UnixNano(), nil); ok != !want.IsZero() || ok && !got.Until.Equal(want) {
						t.Fatalf("subject %d at %s: %v until %v, want until %v", i, name, ok, got.Until, want)
					}
				}
			}
			n := 0
			table.Each(at.UnixNano(), func(b *Ban) bool {
				if r, ok := ref[b.key()]; !ok || !r.Until.Equal(b.Until) {
					t.Fatalf("ban %v is there", b)
				}
				n++
				return true
			})
			if n != len(ref) {
				t.Fatalf("%d bans, want %d", n, len(ref))
			}
		}
	})
}

// TestIndexAgainstMap uses few hashes, so that slots collide, wrap around the end and close gaps.
func TestIndexAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index
		keys := map[uint32]uint64{} // number to hash
		hashOf := func(no uint32) uint64 { return keys[no] }
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			no := uint32(rapid.IntRange(0, 60).Draw(t, "no"))
			hash, there := keys[no]
			place, got, ok := x.find(hash, func(n uint32) bool { return n == no })
			if ok != there || ok && got != no {
				t.Fatalf("record %d: found %v, want %v", no, ok, there)
			}
			if there {
				x.remove(place, hashOf)
				delete(keys, no)
			} else {
				keys[no] = uint64(rapid.IntRange(0, 40).Draw(t, "home"))<<8 | uint64(rapid.IntRange(0, 3).Draw(t, "tag"))<<52
				x.put(keys[no], no, hashOf)
			}
			for no, hash := range keys {
				if _, _, ok := x.find(hash, func(n uint32) bool { return n == no }); !ok {
					t.Fatalf("record %d is lost", no)
				}
			}
			if x.n != len(keys) {
				t.Fatalf("%d records, want %d", x.n, len(keys))
			}
		}
	})
}

// TestPitfall12BansAreBounded: the ban that ends soonest makes room, and that is counted.
func TestPitfall12BansAreBounded(t *testing.T) {
	const most = 20_000
	table := newBanTable(most)
	at := day0.UnixNano()
	put := func(n int, d time.Duration) error {
		s := identity.Subject{Kind: identity.KindI}
		s.ID[0], s.ID[1], s.ID[2], s.ID[3] = byte(n), byte(n>>8), byte(n>>16), 1
		return table.Put(&Ban{Subject: s, Until: day0.Add(d), Made: day0}, false, at)
	}
	for i := range most {
		if err := put(i, time.Hour+time.Duration(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range most / 2 {
		if err := put(most+i, 2*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if n := table.n.Load(); n != most {
		t.Errorf("%d bans, want %d", n, most)
	}
	if n := table.evicted.Load(); n != most/2 {
		t.Errorf("%d counted, want %d", n, most/2)
	}
	long := 0
	table.Each(at, func(b *Ban) bool {
		if b.Until.Equal(day0.Add(2 * time.Hour)) {
			long++
		}
		return true
	})
	if long < most/2*99/100 { // each shard evicts its own, and they are not equally full
		t.Errorf("%d of %d longer bans are left", long, most/2)
	}
	if err := put(3*most, time.Minute); !errors.Is(err, ErrFull) {
		t.Errorf("the soonest-ending of all: %v, want ErrFull", err)
	}
}

// TestBansUnderConcurrency is for the race detector.
func TestBansUnderConcurrency(t *testing.T) {
	w := newWorld(t).start()
	done := make(chan struct{})
	for g := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			s := service(t)
			for i := range 300 {
				addr := fmt.Sprintf("192.0.2.%d", rand.IntN(8))
				switch (i + g) % 4 {
				case 0:
					_ = w.BanSoon(Ban{Subject: ip(addr), Until: w.now().Add(time.Minute), Service: fmt.Sprint("s", i%5)})
				case 1:
					_, _ = w.Unban(ctx, ip(addr), "*")
				case 2:
					w.ask(s, addr)
				default:
					w.Bans(BanFilter{})
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	live, stored := len(w.Bans(BanFilter{})), 0
	_ = w.st.Memory.Scan(ctx, []byte(banPrefix), func(_, _ []byte, _ time.Duration) error { stored++; return nil })
	if live != stored {
		t.Errorf("%d bans in memory, %d in the store", live, stored)
	}
}

func FuzzParseBan(f *testing.F) {
	b := Ban{
		Subject: ip("192.0.2.1"), Until: day0, Made: day0, Service: "shop", Source: SourceProcessor, Score: 1, Reason: "pace",
		Model: "m", Factors: [MaxFactors]Factor{{"a", 1, 3}, {"b", 2, 2}, {"c", 3, 1}},
	}
	f.Add(b.key().appendTo(nil), b.appendValue(nil))
	b.Only = 7
	f.Add(b.key().appendTo(nil), b.appendValue(nil))
	b = Ban{Subject: sub(identity.KindL, 1), Until: day0, Made: day0}
	f.Add(b.key().appendTo(nil), b.appendValue(nil))
	b.lifted = true
	f.Add(b.key().appendTo(nil), b.appendValue(nil))
	f.Add([]byte("ban/"), []byte{1})
	f.Add([]byte("ban/\x020000000000000000\x00"), []byte("\x0100000000000000000000\xff\xf400\x00\x00")) // NaN
	f.Fuzz(func(t *testing.T, key, val []byte) {
		b, err := parseBan(key, val)
		if err != nil {
			return
		}
		again, err := parseBan(b.key().appendTo(nil), b.appendValue(nil))
		if err != nil || !reflect.DeepEqual(b, again) {
			t.Fatalf("%v\n%+v\n%+v", err, b, again)
		}
	})
}

func FuzzHeardBan(f *testing.F) {
	b := Ban{Subject: ip("192.0.2.1"), Until: day0.Add(time.Hour), Made: day0}
	f.Add([]byte{saidBan, 2, 'b', 'a', 0})
	f.Add(append([]byte{saidUnban, 0, 0, 0, 0, 0, 0, 0, 1}, b.key().appendTo(nil)...))
	w := newWorld(f)
	f.Fuzz(func(_ *testing.T, msg []byte) {
		_ = w.heardBan(msg)
		_ = w.revoked.Heard(msg)
	})
}
