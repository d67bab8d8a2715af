package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
)

// TestTrusted: a client that has read sixteen pages with the subresources that clients of the site load is trusted.
func TestTrusted(t *testing.T) {
	f := func(name string, pages, parts int, known float32, want bool, with func(e *verdict.Event)) {
		t.Helper()
		p, b := newProcessor(t, nil)
		know(t, p, []*verdict.Settings{{Name: "shop", Threshold: 0.5, Unsure: 0.3}})
		if r := p.service(0); known > 0 {
			r.people.median.Store(uint64(known*100) + 1)
		}
		at := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
		for n := range pages {
			e := reading(at.Add(time.Duration(n)*time.Minute), n, office)
			if with != nil {
				with(e)
			}
			p.Process(e)
			for range parts {
				p.Process(picture(reading(e.At.Add(time.Second), 1000+n, office)))
			}
		}
		if got := len(b.trusted) > 0; got != want {
			t.Errorf("%s: trusted %v", name, got)
		}
	}
	f("a person", 16, 3, 3, true, nil)
	f("with some parts in a cache", 16, 2, 3, true, nil)
	f("too few pages", 15, 3, 3, false, nil)
	f("hardly any parts", 16, 1, 3, false, nil)
	f("at a site whose pages have none", 16, 3, 0.1, false, nil)
	f("at a site that is not known", 16, 3, 0, false, nil)
	f("by a pass", 16, 3, 3, false, func(e *verdict.Event) { e.Paid = true })
	f("stopped", 16, 3, 3, false, func(e *verdict.Event) { e.Verdict, e.Cause = verdict.Robot, verdict.CauseBan })
}
