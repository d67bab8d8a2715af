package processor

import (
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/client"
)

// kept is a keeper that counts what it is to keep.
type kept struct {
	BanKeeper
	bans, seen int
}

func (k *kept) BanSoon(b bans.Ban) error { k.bans++; return k.BanKeeper.BanSoon(b) }
func (k *kept) Observe(e *verdict.Event) { k.seen++; k.BanKeeper.Observe(e) }

// TestThePastIsKeptElsewhere: what was judged before a start makes no ban, and counts for nobody's standing; but its robot is known, so
// that its next page is one too many.
func TestThePastIsKeptElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		g := newGatewayWith(t, nil, func(p *Processor) { k.BanKeeper, p.keeper = p.keeper, k })
		defer g.end()
		e := verdict.Event{
			At: time.Now(), Service: g.s.Index, N: 1, Status: 200, Type: verdict.TypeHTML, Document: true, Method: 'G',
			Mode: verdict.Enforce, Past: true, Again: true,
		}
		e.Page, e.WantsHTML, e.Claim = true, true, client.Claim{Family: client.FamilyChrome}
		e.Subjects[0] = identity.Subject{Kind: identity.KindIP, ID: [16]byte{10: 0xff, 11: 0xff, 12: 203, 14: 113, 15: 9}}
		page := func() {
			e.At = e.At.Add(10 * time.Millisecond)
			e.Path++
			g.p.Process(&e)
		}
		for range 500 {
			page()
		}
		if k.bans != 0 || k.seen != 0 {
			t.Errorf("the past made %d bans, %d standings", k.bans, k.seen)
		}
		e.Past, e.Again = false, false
		e.At = e.At.Add(time.Hour) // a ban that was made then is over
		for range 2 {
			page()
		}
		if k.seen != 2 {
			t.Errorf("the present counts %d times", k.seen)
		}
		s := g.p.sessions
		sh, h := s.Lock(e.Subjects[0])
		x := sh.Find(h, e.Subjects[0])
		pages, banned := x.pages, x.bans
		sh.Unlock()
		if pages != 502 || banned == 0 {
			t.Errorf("%d pages and %d bans of it are known", pages, banned)
		}
	})
}
