package processor

import (
	"testing"
	"time"

	"antirobot/verdict/browsers"
	"antirobot/verdict/client"
)

// TestSitesThatWantNoReferers: where nobody names a page of the site, though some name other sites, it says nothing of anybody that
// it doesn't either; one site whose people do name its pages holds it against who does not.
func TestSitesThatWantNoReferers(t *testing.T) {
	t.Parallel()
	at := time.Unix(1.8e9, 0)
	for _, own := range []bool{false, true} {
		var a browsers.Fields
		for n := range 20 {
			e := outside(at, n, n%2 == 0)
			a.See(e, n < 10)
			if e.Cookies = client.CookieOurs; own {
				e.Referer = client.RefererSame
			}
			a.See(e, n < 10)
		}
		c := evidence{e: outside(at, 99, false), lost: a.Lost(at.Unix())}
		c.s.sharesOf, c.s.shares[shareLoad], c.s.shares[shareRefererNone] = 10, 10, 10
		c.s.shares[shareNavigate], c.s.shares[shareOffered] = 10, 10
		c.t.nMoves, c.t.moves[moveEntry] = 10, 10
		for _, f := range factors {
			switch f.Name {
			case "referer_none_share", "referer_same_share", "referer_known_share", "branch_share", "entry_share":
				if v := f.of(&c); (v == v) != own {
					t.Errorf("pages of the site are named: %t, %s is %v", own, f.Name, v)
				}
			case "referer_foreign_share":
				if v := f.of(&c); v != 0 {
					t.Errorf("%s is %v", f.Name, v)
				}
			}
		}
	}
}
