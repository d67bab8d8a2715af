package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/store/pebblestore"
	"antirobot/verdict"
)

// FuzzQuery: a query either is refused with words, or can be asked of any row.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{`verdict:robot,blocked -path:/api ip:203.0.113.0/24`, `agent:"a b" since:1d2h until:2026-01-02T15:04:05Z`, "2001:db8::1 status:4xx", `"`, "-", ":", "since:99999999d"} {
		f.Add(s)
	}
	r := row{}
	r.texts[colAddress], r.texts[colPath] = []byte("203.0.113.7"), []byte("/api")
	f.Fuzz(func(t *testing.T, s string) {
		q, err := ParseQuery(s, time.Unix(1_700_000_000, 0))
		if err != nil && err.Error() == "" {
			t.Error("refused without a word")
		}
		q.matches(&r)
	})
}

// FuzzTerm: the condition that is made of a value selects the rows that have it, and no others.
func FuzzTerm(f *testing.F) {
	for _, s := range []string{`curl`, `Mozilla/5.0 (X11; "Linux", x86_64)`, `a\"b\\`, "Обозреватель/1", `\`, `"`, ",", "", "-x", "k:v"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if len(value) > maxTerm || strings.ContainsAny(value, "\x00\uFFFD") || !utf8.ValidString(value) {
			return
		}
		q, err := ParseQuery(Term("service", value)+" "+Term("-service", value+"x"), time.Unix(1_700_000_000, 0))
		if err != nil || len(q.terms) != 2 {
			t.Fatalf("%q: %d terms, %v", value, len(q.terms), err)
		}
		r := row{}
		for text, want := range map[string]bool{value: true, value + "x": false, "x" + value: false} {
			r.texts[colService] = []byte(text)
			if got := q.matches(&r); got != want {
				t.Errorf("%q selects %q: %v", value, text, got)
			}
		}
	})
}

// TestTermOfPart: of what is no text, or too long, a part is looked for.
func TestTermOfPart(t *testing.T) {
	for _, agent := range []string{"a\xffMozilla \"5\"\xe9", strings.Repeat("длинный, ", 120)} {
		q, err := ParseQuery(Term("agent", agent), time.Unix(1_700_000_000, 0))
		if err != nil {
			t.Fatal(err)
		}
		r := row{}
		r.texts[colAgent] = []byte(agent)
		if !q.matches(&r) {
			t.Errorf("%q does not find it", Term("agent", agent))
		}
		r.texts[colAgent] = []byte("curl")
		if q.matches(&r) {
			t.Errorf("%q finds everything", Term("agent", agent))
		}
	}
}

// FuzzRow: what is stored is either read back as it was written, or refused.
func FuzzRow(f *testing.F) {
	whole := row{kind: KindShown, verdict: verdict.Robot, cause: verdict.CauseBan, status: 302, took: 1500, share: 0.25}
	whole.texts[colPath] = []byte("/a")
	f.Add(appendRow(nil, &whole))
	f.Add([]byte{rowVersion})
	key := entryKey(spaceEntry, request.ID{1}, KindShown)
	f.Fuzz(func(t *testing.T, val []byte) {
		var r, again row
		if r.read(key, val) != nil {
			return
		}
		text := appendRow(nil, &r)
		if err := again.read(key, text); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, appendRow(nil, &again)) {
			t.Errorf("%x became %x", val, text)
		}
	})
}

// TestNoteAllocatesNothing: the path of requests pays for a copy alone.
func TestNoteAllocatesNothing(t *testing.T) {
	w := newWorld(t, small(), func(d *Deps) { d.queue = 1 << 15 })
	view := request.View{At: w.now(), Method: []byte("GET"), Path: []byte("/x")}
	id := identity.Identity{Addr: netip.MustParseAddr("203.0.113.7")}
	var d verdict.Decision
	var n verdict.Note
	s := verdict.Settings{Name: "shop"}
	rid := request.NewID(w.now())
	// The mean of many runs: the writer's goroutine allocates meanwhile.
	if got := testing.AllocsPerRun(20_000, func() {
		d.Note(&n, rid, &view, &id, &s)
	}); got > 0 {
		t.Errorf("%v allocations for a note", got)
	}
}

// TestForgets: what is too old, and the oldest part of too much, is forgotten; addresses that are old enough are shortened; a
// subject can be erased.
func TestForgets(t *testing.T) {
	cfg := small()
	cfg.MaxAge, cfg.AddressesAfter = 10*day, 3*day
	w := newWorld(t, cfg, nil)
	w.decide("203.0.113.7", "/first", "x", nil)
	w.pass(5 * day)
	w.decide("203.0.113.8", "/second", "x", nil)
	w.decide("198.51.100.4", "/third", "x", nil)
	w.written(3)
	w.veil(w.now())
	for _, e := range w.find("") {
		if want := map[string]string{"/first": "203.0.113.0/24", "/second": "203.0.113.8", "/third": "198.51.100.4"}[e.Path]; e.Address != want || e.Subject != "ip:"+want {
			t.Errorf("%s is of %s, %s", e.Path, e.Address, e.Subject)
		}
	}
	if got, err := w.Subject("ip:203.0.113.7", 10); err != nil || len(got) != 0 {
		t.Errorf("the address still leads to %+v, %v", got, err)
	}
	if n, err := w.Erase(context.Background(), "ip:198.51.100.4"); n != 1 || err != nil {
		t.Errorf("erased %d, %v", n, err)
	}
	if got := w.find("path:/third"); len(got) != 0 {
		t.Errorf("erased, and found: %+v", got)
	}
	w.trim(w.now().Add(6 * day))
	if got := w.find(""); len(got) != 1 || got[0].Path != "/second" {
		t.Errorf("after eleven days there is %+v", got)
	}
}

// TestHashes: addresses that are old enough become hashes, in entries and in their stories: equal ones of a day, others on another
// day; nothing leads from an address to them.
func TestHashes(t *testing.T) {
	cfg := small()
	cfg.MaxAge, cfg.AddressesAfter, cfg.Addresses = 20*day, 3*day, hashAddresses
	w := newWorld(t, cfg, nil)
	w.decide("203.0.113.7", "/1/a", "x", nil)
	w.pass(time.Hour)
	w.decide("203.0.113.7", "/1/b", "x", nil)
	w.decide("203.0.113.8", "/1/c", "x", nil)
	w.pass(day)
	id := w.decide("203.0.113.7", "/2/a", "x", nil)
	w.written(4)
	w.veil(w.now().Add(3*day - 30*time.Minute)) // the first day's come in two parts
	w.veil(w.now().Add(3*day + time.Minute))
	of := map[string]string{}
	for _, e := range w.find("") {
		of[e.Path] = e.Address
		if !strings.HasPrefix(e.Address, "#") || e.Subject != "ip:"+e.Address {
			t.Errorf("%s is of %s, %s", e.Path, e.Address, e.Subject)
		}
	}
	if of["/1/a"] != of["/1/b"] || of["/1/a"] == of["/1/c"] || of["/1/a"] == of["/2/a"] {
		t.Errorf("%v", of)
	}
	told, ok, err := w.Get(id)
	if text, _ := json.Marshal(told); err != nil || !ok || told.Story == nil || strings.Contains(string(text), "203.0.113") {
		t.Errorf("%s %v", text, err)
	}
	if got, err := w.Subject("ip:203.0.113.7", 10); err != nil || len(got) != 0 {
		t.Errorf("the address still leads to %+v, %v", got, err)
	}
}

// TestMaxBytes: of more than max_bytes the oldest is forgotten, and the newest stays.
func TestMaxBytes(t *testing.T) {
	dir, most := t.TempDir(), int64(1<<20) // less than an operator may say
	open := func() *world { return newWorld(t, small(), func(d *Deps) { d.Dir = dir }) }
	w := open()
	const entries = 16 * maxBatch
	start, noise := w.now().Add(-day), rand.New(rand.NewPCG(1, 2))
	var newest request.ID
	for from := 0; from < entries; from += maxBatch {
		w.write(maxBatch, func(lb *pebblestore.LogBatch) {
			for i := range maxBatch {
				r := row{id: request.NewID(start.Add(day / entries * time.Duration(from+i))), share: 1}
				r.texts[colPath] = fmt.Appendf(nil, "/%x%x%x%x", noise.Uint64(), noise.Uint64(), noise.Uint64(), noise.Uint64()) // it does not compress
				r.texts[colAgent] = fmt.Appendf(nil, "%0512x", noise.Uint64())
				newest = r.id
				w.put(lb, &r, map[string]uint64{"a": noise.Uint64(), "b": noise.Uint64(), "c": noise.Uint64()}, nil)
			}
		})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = open() // now all of it is in the engine's tables, and counted: what waits in memory is not
	w.cfg.MaxBytes = most
	if n := w.since(start); n <= most {
		t.Fatalf("%d bytes are not more than %d", n, most)
	}
	w.trim(w.now())
	first := w.first(w.now())
	if n := w.since(first); n > most || n < most/2 {
		t.Errorf("%d bytes are left", n)
	}
	if _, ok, err := w.Get(newest); !ok || err != nil {
		t.Errorf("the newest is gone: %v", err)
	}
	if !first.After(start) {
		t.Errorf("the oldest is of %v", first)
	}
}

// BenchmarkJournal fills a journal and prints what a look-up by number and a filter over the last hour take. `make bench` fills it with
// 25 million entries of fourteen days.
func BenchmarkJournal(b *testing.B) {
	entries := *benchEntries
	cfg := DefaultConfig()
	cfg.MaxBytes = 1 << 40
	w := newWorld(b, cfg, nil)
	start := w.now().Add(-13 * day)
	step := 13 * day / time.Duration(entries)
	var some request.ID
	hour := start
	agents := []string{"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "curl/8.1", "python-requests/2.32"}
	for from := 0; from < entries; from += maxBatch {
		batch := make([]written, min(maxBatch, entries-from))
		for i := range batch {
			n := from + i
			r := &batch[i].row
			r.id, r.verdict, r.cause, r.share, r.status = request.NewID(start.Add(step*time.Duration(n))), verdict.Robot, verdict.CauseBan, 1, 302
			r.texts[colService], r.texts[colMethod], r.texts[colAgent] = []byte("shop"), []byte("GET"), []byte(agents[n%3])
			address := netip.AddrFrom4([4]byte{203, byte(n >> 14), byte(n >> 6), byte(n)}).String()
			r.texts[colAddress], r.texts[colSubject] = []byte(address), []byte("ip:"+address)
			r.texts[colPath], r.texts[colReason] = fmt.Appendf(nil, "/goods/%d", n%10_000), fmt.Appendf(nil, "rule %d", n%70)
			batch[i].details = verdict.Story{RequestID: r.id.String(), Service: "shop", Verdict: "robot", Cause: "ban", Subject: "ip:" + address}
			if n == entries/2 {
				some = r.id
			}
		}
		w.write(len(batch), func(lb *pebblestore.LogBatch) {
			for i := range batch {
				w.put(lb, &batch[i].row, batch[i].details, nil)
			}
		})
		w.countStopped(batch)
		if at := batch[len(batch)-1].row.at(); at.Sub(hour) >= time.Hour {
			hour = at
			w.figure(at)
		}
	}
	b.Run("number", func(b *testing.B) {
		for b.Loop() {
			if t, ok, err := w.Get(some); !ok || err != nil || t.Story == nil {
				b.Fatal(ok, err)
			}
		}
	})
	q, err := ParseQuery("agent:nobody", w.now())
	if err != nil {
		b.Fatal(err)
	}
	q.Since = start.Add(step * time.Duration(entries)).Add(-time.Hour)
	b.Run("hour", func(b *testing.B) {
		scanned := 0
		for b.Loop() {
			f, err := w.Find(context.Background(), &q, 100, "", "")
			if err != nil {
				b.Fatal(err)
			}
			scanned = f.Scanned
		}
		b.ReportMetric(float64(scanned), "entries")
	})
	for _, span := range []struct {
		name, by string
		long     time.Duration
	}{{"hour", "minute", time.Hour}, {"week", "hour", 7 * day}, {"year", "day", 365 * day}} {
		b.Run("first screen of a "+span.name, func(b *testing.B) { // what the console asks the journal
			for b.Loop() {
				if _, err := w.Stopped(span.by, w.now().Add(-span.long), w.now(), 6); err != nil {
					b.Fatal(err)
				}
				if _, err := w.Figures(span.by, w.now().Add(-span.long), w.now()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var benchEntries = flag.Int("entries", 2_000, "how many entries BenchmarkJournal writes")
