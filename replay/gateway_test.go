package replay

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/processor"
	"antirobot/verdict/quota"
)

// TestWhyItIsAsked: which quota was exceeded.
func TestWhyItIsAsked(t *testing.T) {
	s := Served{Stopped: true, Decision: &verdict.Decision{Cause: verdict.CauseQuota}}
	s.Decision.Excess.Most, s.Decision.Excess.Window, s.Decision.Excess.Scope = 100, "24h", quota.ScopeAddress
	if why := s.Why(); why != "quota of address: more than 100 pages in 24h" {
		t.Error(why)
	}
}

// TestNobodyIgnoredAChallengeInALog: whoever a log says to go on has seen no challenge of ours, so it is not held against them that they have not
// solved one. A client that goes on in live traffic has.
func TestNobodyIgnoredAChallengeInALog(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		most, at := float32(-1), slices.Index(processor.FactorNames(), "captcha_ignored")
		g := lone(t, func(_ identity.Subject, _ uint16, _ time.Time, factors []float32, _ float32) {
			most = max(most, factors[at])
		})
		stopped := 0
		for i := range 400 {
			v := request.View{
				Peer: netip.MustParseAddr("203.0.113.7"), At: day0.Add(time.Duration(i) * 200 * time.Millisecond), Method: []byte("GET"), Host: []byte("site.example"),
				Path: fmt.Appendf(nil, "/api/%d", i), Target: fmt.Appendf(nil, "/api/%d", i),
				Fields: []request.Field{{Name: []byte("User-Agent"), Value: []byte("Mozilla/5.0 HeadlessChrome/140.0.0.0 Safari/537.36")}, {Name: []byte("Accept-Language"), Value: []byte("en")}, {Name: []byte("Accept-Encoding"), Value: []byte("gzip")}, {Name: []byte("Referer"), Value: []byte("https://site.example/")}, {Name: nameAccept, Value: []byte("application/json")}, {Name: nameMode, Value: []byte("cors")}},
			}
			answer := Response{Status: 200, Bytes: 900}
			serve := g.Serve
			if recorded {
				serve = func(v *request.View, a *Response) *Served { return g.record(v, a, identity.Subject{}, v.Kind()) }
			}
			if serve(&v, &answer).Stopped {
				stopped++
			}
		}
		if stopped == 0 || (most > 0) == recorded {
			t.Errorf("recorded %v: %d stopped, ignored %v", recorded, stopped, most)
		}
	}
}
