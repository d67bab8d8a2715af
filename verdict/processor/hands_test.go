package processor

import (
	"math"
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// TestHands: by what pages are opened that are new to a client: what is loaded again, ahead of time, in a frame, from outside, from a recorded line or by a
// browser that never says so counts for nothing.
func TestHands(t *testing.T) {
	const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36"
	const safari = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15"
	const fetch = client.HasFetchMode | client.HasFetchDest | client.HasFetchSite
	same := func(agent string, headers client.Headers) *verdict.Event {
		e := &verdict.Event{Type: verdict.TypeHTML}
		e.Claim, e.Headers, e.Page, e.Site, e.Referer = client.ParseClaim([]byte(agent)), headers, true, client.SiteSame, client.RefererSame
		return e
	}
	for _, c := range []struct {
		name                string
		change              func(e *verdict.Event)
		agent               string
		headers             client.Headers
		again               bool
		unclicked, uncached float64 // NaN: unknown
	}{
		{"clicks", nil, chrome, fetch | client.HasFetchUser, false, 0, 0},
		{"a script clicks", nil, chrome, fetch, false, 1, 0},
		{"a script clicks in Firefox", nil, firefox, fetch, false, 1, 0},
		{"no cache", nil, chrome, fetch | client.HasFetchUser | client.HasPragma, false, 0, 1},
		{"Safari never says so", nil, safari, fetch, false, math.NaN(), math.NaN()},
		{"no Sec-Fetch fields", nil, chrome, 0, false, math.NaN(), math.NaN()},
		{"ahead of time", nil, chrome, fetch | client.HasPurpose, false, math.NaN(), math.NaN()},
		{"in a frame", nil, chrome, fetch | client.InFrame, false, math.NaN(), math.NaN()},
		{"the same pages again", nil, chrome, fetch, true, math.NaN(), math.NaN()},
		{"from outside", func(e *verdict.Event) { e.Site = client.SiteCross }, chrome, fetch, false, math.NaN(), 0},
		{"a recorded line", func(e *verdict.Event) { e.Partial = true }, chrome, fetch, false, math.NaN(), math.NaN()},
	} {
		tr := new(trail)
		at := time.Unix(1.8e9, 0)
		for i := range 12 {
			e := same(c.agent, c.headers)
			if c.change != nil {
				c.change(e)
			}
			at = at.Add(20 * time.Second)
			e.At, e.Path = at, uint64(i)*0x9e3779b97f4a7c15
			tr.load(e, !c.again, false)
		}
		got := func(m, of move) float64 { return float64(ofThese(m, of)(&evidence{t: *tr})) }
		is := func(name string, got, want float64) {
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s: %s is %v, want %v", c.name, name, got, want)
			}
		}
		is("unclicked_share", got(moveAlone, moveLed), c.unclicked)
		is("uncached_share", got(moveForce, moveAnew), c.uncached)
	}
}
