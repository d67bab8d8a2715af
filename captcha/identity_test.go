package captcha

import (
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/spravka"
)

// TestPassIsTheVisitorsIdentity: the pass of a right answer is verified on the next request by the package responsible
// for that, for the visitor and for a partner's user, but never one for the other.
func TestPassIsTheVisitorsIdentity(t *testing.T) {
	for _, domain := range []string{"", "example.com"} {
		icfg := identity.DefaultServiceConfig()
		icfg.Domain = domain
		e := newEnv(t, func(_ *Config, _ *ServiceConfig, i *identity.ServiceConfig) { *i = icfg })
		r, err := identity.New(identity.DefaultConfig(), identity.Deps{Keys: spravka.NewKeys(e.ring)})
		if err != nil {
			t.Fatal(err)
		}
		is, err := identity.NewCookieSettings(icfg)
		if err != nil {
			t.Fatal(err)
		}
		solved := e.solve()
		jar := header("Cookie", "a=b; spravka="+value(cookies(&solved)["spravka"]))
		e.pass(time.Second)
		q := e.request("GET", "https://example.com/", jar)
		var id identity.Identity
		r.Resolve(&id, q.View, is)
		if id.NPasses != 1 || id.Winner() != (identity.Subject{Kind: identity.KindSpravka, ID: solved.Pass.ID}) ||
			id.Passes[0] != solved.Pass {
			t.Errorf("domain %q: %d passes, refused %v", domain, id.NPasses, id.Refused[:id.NRefused])
		}
		one, two := spravka.PartnerOf("one"), spravka.PartnerOf("two")
		r.ResolvePartner(&id, q.View, is, one, addr("203.0.113.7"))
		if id.NPasses != 0 {
			t.Errorf("domain %q: a visitor's pass counts for a partner's user", domain)
		}

		fresh := e.c.ChallengeXML(e.request("GET", "https://example.com/xml", partner("one")), false)
		q = e.request("GET", "https://example.com/xml", header("Cookie", "spravka="+value(cookies(&fresh)["spravka"])))
		r.ResolvePartner(&id, q.View, is, one, addr("203.0.113.7"))
		if id.NFresh != 1 || id.NPasses != 0 || id.Winner().Kind != identity.KindIP || id.Addr != addr("203.0.113.7") {
			t.Errorf("domain %q: a fresh pass is %+v", domain, id.Winner())
		}
		if _, ok := e.c.FreshPass(&Request{View: q.View, ID: &id, Service: e.svc, Partner: &Partner{Name: "one"}}); ok {
			t.Errorf("domain %q: another fresh pass for a user who has one", domain)
		}
		r.ResolvePartner(&id, q.View, is, two, addr("203.0.113.7"))
		if id.NFresh != 0 {
			t.Errorf("domain %q: one partner's pass counts for another", domain)
		}
	}
}

// TestPartnersUsersHaveARateEach: a partner answers for thousands of users from one address, so each has a separate
// rate.
func TestPartnersUsersHaveARateEach(t *testing.T) {
	e := newEnv(t, nil, func(b *bounds) { b.checks = rate{1, 2} })
	for i := range 10 {
		user := from("198.51." + string(rune('0'+i)) + ".7")
		x := readXML(t, e.c.ChallengeXML(e.request("GET", "https://example.com/xml", user, partner("one")), false))
		a := e.c.XCheck(e.request("GET", "https://example.com/xcheckcaptcha?key="+x.Key+"&rep="+e.answerOf(x.Key),
			from("192.0.2.1"), partner("one")))
		if a.Outcome != OutcomeSolved {
			t.Fatalf("user %d: status %d", i, a.Status)
		}
	}
}
