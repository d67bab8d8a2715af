package verdict

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
)

// TestCampaignIsRevoked: what a kind of browser in a network has earned is worthless at once, also after a restart; what it
// earns later, other browsers and other networks are not concerned.
func TestCampaignIsRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(false, nil)
		w := newWorldOver(t, st, nil).start()
		net := netip.MustParsePrefix("192.0.2.0/24")
		key, other := identity.NetKey(net), identity.NetKey(netip.MustParsePrefix("198.51.100.0/24"))
		at := time.Now()
		if w.RevokedCampaign(key, 7, at.Unix()) {
			t.Fatal("revoked already")
		}
		if err := w.RevokeCampaign(ctx, net, 7, at); err != nil {
			t.Fatal(err)
		}
		check := func(when string) {
			t.Helper()
			for what, c := range map[string]struct{ got, want bool }{
				"its passes":       {w.RevokedCampaign(key, 7, at.Unix()-3600), true},
				"its last pass":    {w.RevokedCampaign(key, 7, at.Unix()), true},
				"what it earns on": {w.RevokedCampaign(key, 7, at.Unix()+1), false},
				"another browser":  {w.RevokedCampaign(key, 8, at.Unix()-3600), false},
				"another network":  {w.RevokedCampaign(other, 7, at.Unix()-3600), false},
			} {
				if c.got != c.want {
					t.Errorf("%s, %s: revoked %v", when, what, c.got)
				}
			}
		}
		check("at once")
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		w = newWorldOver(t, st, nil).start()
		defer w.Close()
		check("after a restart")
		if err := w.RevokeCampaign(ctx, netip.MustParsePrefix("198.51.100.0/24"), 0, at); err != nil || !w.RevokedCampaign(other, 99, at.Unix()) {
			t.Errorf("a whole network: %v", err)
		}
		if err := w.RevokeCampaign(ctx, netip.Prefix{}, 5, at); err != nil || !w.RevokedCampaign(0, 5, at.Unix()) || w.RevokedCampaign(0, 6, at.Unix()) ||
			w.RevokedCampaign(1, 5, at.Unix()) {
			t.Errorf("a shape: %v", err)
		}
		if err := w.RevokeCampaign(ctx, netip.Prefix{}, 0, at); err == nil {
			t.Error("neither network nor shape is accepted")
		}
		if err := w.RevokeCampaign(ctx, netip.MustParsePrefix("198.51.0.0/16"), 0, at); err == nil {
			t.Error("a network that passes know nothing of is accepted")
		}
	})
}
