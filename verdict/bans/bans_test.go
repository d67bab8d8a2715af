package bans

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"antirobot/identity"
)

var day0 = time.Date(2026, 7, 20, 12, 0, 0, 0, time.UTC)

func subject(n int) identity.Subject {
	return identity.Subject{Kind: identity.KindI, ID: [16]byte{byte(n), byte(n >> 8)}}
}

// TestBanTableAgainstMap makes and lifts random bans while time passes, and compares the table with an obvious map.
func TestBanTableAgainstMap(t *testing.T) {
	services := []string{"", "shop", "mail"}
	rapid.Check(t, func(t *rapid.T) {
		table := NewTable(1000)
		ref := map[Key]Ban{}
		at := day0
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			b := Ban{
				Subject: subject(rapid.IntRange(0, 5).Draw(t, "subject")),
				Source:  Source(rapid.IntRange(0, 1).Draw(t, "source")),
				Service: rapid.SampledFrom(services).Draw(t, "service"),
				Until:   at.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "for"))), Made: at, Score: 1,
			}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				if err := table.Put(&b, at.UnixNano()); err != nil {
					t.Fatal(err)
				}
				ref[b.Key()] = b
			case 2:
				old, had := ref[b.Key()]
				if got := table.Remove(b.Key(), at.UnixNano()); got != had && old.Until.After(at) {
					t.Fatalf("remove: %v, want %v", got, had)
				}
				delete(ref, b.Key())
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
					var want time.Time
					for k, r := range ref {
						if k.Subject == subject(i) && r.Holds(name, 0.5) && r.Until.After(want) {
							want = r.Until
						}
					}
					var got Ban
					if ok := table.Lookup(&got, subject(i), name, 0.5, at.UnixNano(), nil); ok != !want.IsZero() || ok && !got.Until.Equal(want) {
						t.Fatalf("subject %d at %s: %v until %v, want until %v", i, name, ok, got.Until, want)
					}
				}
			}
			n := 0
			table.Each(at.UnixNano(), func(b *Ban) bool {
				if r, ok := ref[b.Key()]; !ok || !r.Until.Equal(b.Until) {
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

// TestPitfall12BansAreBounded: the ban that ends soonest makes room, and that is counted.
func TestPitfall12BansAreBounded(t *testing.T) {
	const most = 20_000
	table := NewTable(most)
	at := day0.UnixNano()
	put := func(n int, d time.Duration) error {
		s := identity.Subject{Kind: identity.KindI}
		s.ID[0], s.ID[1], s.ID[2], s.ID[3] = byte(n), byte(n>>8), byte(n>>16), 1
		return table.Put(&Ban{Subject: s, Until: day0.Add(d), Made: day0}, at)
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
	if n := table.Len(); n != most {
		t.Errorf("%d bans, want %d", n, most)
	}
	if n := table.Evicted(); n != most/2 {
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

func FuzzParseBan(f *testing.F) {
	b := Ban{
		Subject: subject(1), Until: day0, Made: day0, Service: "shop", Source: SourceProcessor, Score: 1, Reason: "pace",
		Model: "m", Factors: [MaxFactors]Factor{{"a", 1, 3}, {"b", 2, 2}, {"c", 3, 1}},
	}
	f.Add(b.Key().AppendTo(nil), b.AppendValue(nil, 0))
	b.Only = 7
	f.Add(b.Key().AppendTo(nil), b.AppendValue(nil, 0))
	b = Ban{Subject: identity.Subject{Kind: identity.KindL, ID: [16]byte{1}}, Until: day0, Made: day0}
	f.Add(b.Key().AppendTo(nil), b.AppendValue(nil, 0))
	b.Lifted = true
	f.Add(b.Key().AppendTo(nil), b.AppendValue(nil, 0))
	f.Add([]byte("ban/"), []byte{1})
	f.Add([]byte("ban/\x020000000000000000\x00"), []byte("\x0100000000000000000000\xff\xf400\x00\x00")) // NaN
	f.Fuzz(func(t *testing.T, key, val []byte) {
		b, err := Parse(key, val, 0)
		if err != nil {
			return
		}
		again, err := Parse(b.Key().AppendTo(nil), b.AppendValue(nil, 0), 0)
		if err != nil || !reflect.DeepEqual(b, again) {
			t.Fatalf("%v\n%+v\n%+v", err, b, again)
		}
	})
}

// TestMoveAndSettle: bans whose times are moved still end in the right order.
func TestMoveAndSettle(t *testing.T) {
	table := NewTable(1000)
	at := day0.UnixNano()
	for i := range 500 {
		made := day0
		if i%2 == 0 {
			made = day0.Add(48 * time.Hour)
		}
		b := Ban{Subject: subject(i), Made: made, Until: made.Add(time.Duration(500-i) * time.Second)}
		if _, changed := table.Merge(&b, at); !changed {
			t.Fatal("the ban is not taken")
		}
	}
	if n := len(table.Settle(at, time.Hour)); n != 250 {
		t.Errorf("%d bans are settled", n)
	}
	table.Move(time.Hour)
	for n := range 500 {
		table.Sweep(at + int64(time.Hour) + int64(time.Duration(n)*time.Second))
		if got := table.Len(); got != 500-n {
			t.Fatalf("after %d seconds %d bans are left", n, got)
		}
	}
}
