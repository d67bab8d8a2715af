package admin

import (
	"fmt"
	"sort"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"pgregory.net/rapid"
)

func TestParseTTL(t *testing.T) {
	day := 24 * time.Hour
	f := func(in string, want time.Duration) {
		t.Helper()
		got, err := parseTTL(in)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	f("90s", 90*time.Second)
	f("10m", 10*time.Minute)
	f("1h30m", 90*time.Minute)
	f("7d", 7*day)
	f("1d12h", day+12*time.Hour)
	f("0d5m", 5*time.Minute)
	f("500ms", 500*time.Millisecond)
	for _, in := range []string{
		"", "0", "0s", "0d", "-1h", "+1h", "d", "-1d", "1.5d", "1d-2h", "1d+2h", "12h1d", "7", "7 d", "1w", "1dd",
		"100001d", "99999999999999999999d", "100000d2562047h", "10m ", "९d",
	} {
		f(in, 0)
	}
}

func TestTTLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Range(1, 100_000*86400).Draw(t, "seconds")) * time.Second
		got, err := parseTTL(formatTTL(want))
		if err != nil || got != want {
			t.Fatalf("%v printed as %s reads as %v, %v", want, formatTTL(want), got, err)
		}
	})
}

func FuzzParseTTL(f *testing.F) {
	for _, s := range []string{"7d", "1d12h", "90s", "", "d", "-1d", "1.5d", "9999999999d1h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := parseTTL(s); (err == nil) != (d > 0) {
			t.Errorf("%q: %v, %v", s, d, err)
		}
	})
}

// Walking the pages shows every element once and in order, whatever order the parts come in.
func TestPagesShowEverythingOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(rapid.StringN(1, 8, 20), 0, 60, rapid.ID[string]).Draw(t, "keys")
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		var got []string
		after := ""
		for pages := 0; ; pages++ {
			if pages > 70 {
				t.Fatal("the pages do not end")
			}
			var ctx fasthttp.RequestCtx
			ctx.QueryArgs().Set("limit", fmt.Sprint(limit))
			if after != "" {
				ctx.QueryArgs().Set("after", after)
			}
			p, err := newPage[string](&call{RequestCtx: &ctx})
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				p.offer(k, k)
			}
			vals, next := p.take()
			if len(vals) > limit {
				t.Fatalf("a page of %d with limit %d", len(vals), limit)
			}
			got = append(got, vals...)
			if next == "" {
				break
			}
			after = next
		}
		want := append([]string(nil), keys...)
		sort.Strings(want)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}
