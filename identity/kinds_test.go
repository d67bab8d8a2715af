package identity

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"antirobot/request"
	"antirobot/spravka"
)

// TestAgesAtTheirBorders: a kind counts when it is older than its minimum age, not yet at exactly that second.
func TestAgesAtTheirBorders(t *testing.T) {
	b, s := newBench(t, nil), newService(t, func(c *ServiceConfig) {
		c.IMinAge = time.Hour
		c.ServiceCookie.MinAge = 2 * time.Hour
		c.Fuid = fuidTrusted
		c.Login.MaxAge = 10 * day
	})
	fresh := func(p *spravka.Pass) { p.Earned = false }
	for _, c := range []struct {
		name, cookie string
		at           time.Duration // after start
		want         string
	}{
		{"i at an hour", b.i(start, nil), time.Hour, "ip -i:young"},
		{"i above an hour", b.i(start, nil), time.Hour + time.Second, "i ip"},
		{"i of the future", b.i(start.Add(day), nil), 0, "ip -i:young"},
		{"i at its end", b.i(start, nil), iLifetime, "ip -i:expired"},
		{"service at two hours", signed(t, "sid", "x", start), 2 * time.Hour, "ip -service:young"},
		{"service above two hours", signed(t, "sid", "x", start), 2*time.Hour + time.Second, "service ip"},
		{"service of the future", signed(t, "sid", "x", start.Add(time.Second)), 0, "ip -service:young"},
		{"fuid at a day", fuid(start, "x"), day, "ip -fuid:young"},
		{"fuid above a day", fuid(start, "x"), day + time.Second, "fuid ip"},
		{"fuid of the future", fuid(start.Add(time.Hour), "x"), 0, "ip -fuid:young"},
		{"pass at once", b.pass(start, nil), 0, "spravka ip"},
		{"pass before its end", b.pass(start, nil), 30*day - time.Second, "spravka ip"},
		{"pass at its end", b.pass(start, nil), 30 * day, "ip -spravka:expired"},
		{"fresh pass at a day", b.pass(start, fresh), day, "ip -spravka:unearned"},
		{"fresh pass above a day", b.pass(start, fresh), day + time.Second, "spravka ip"},
		{"L at once", signed(t, "L", "alice", start), 0, "L ip"},
		{"L at its end", signed(t, "L", "alice", start), 10 * day, "L ip"},
		{"L after its end", signed(t, "L", "alice", start), 10*day + time.Second, "ip -L:expired"},
		{"L of the future", signed(t, "L", "alice", start.Add(time.Hour)), 0, "ip -L:young"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var id Identity
			b.Resolve(
				&id, page(start, "203.0.113.7", c.cookie), s,
			) // it may be in the cache: ages are checked each time
			b.Resolve(&id, page(start.Add(c.at), "203.0.113.7", c.cookie), s)
			if got := told(&id); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestNoKindPassesForAnother: pitfall 4, every token presented as every other cookie, before and after it is cached.
func TestNoKindPassesForAnother(t *testing.T) {
	b, s := newBench(t, nil), newService(t, func(c *ServiceConfig) { c.Fuid = fuidTrusted })
	old := start.Add(-2 * day)
	values := map[string]string{}
	for _, cookie := range []string{b.pass(start, nil), b.i(old, nil), signed(t, "L", "alice", old), signed(t, "sid", "x", old)} {
		name, value, _ := strings.Cut(cookie, "=")
		values[name] = value
	}
	captcha := func(seal func([]byte, spravka.Purpose, []byte, []byte, time.Time) []byte) string {
		p := spravka.Pass{ID: spravka.NewID(), Allowance: 1e6, Earned: true, Scope: spravka.ScopeOf("example.com")}
		return string(seal(nil, spravka.PurposeCaptcha, nil, p.AppendPacked(nil)[:62], start.Add(day)))
	}
	values["captcha key"] = captcha(b.keys.Ring().Seal)
	values["secret captcha key"] = captcha(b.keys.Ring().SealSecret)
	for range 2 {
		for from, value := range values {
			for _, as := range []string{"spravka", "i", "L", "sid", "fuid01"} {
				var id Identity
				b.Resolve(&id, page(start, "203.0.113.7", as+"="+value), s)
				if (id.N == 2) != (from == as) || id.N > 2 {
					t.Errorf("%s as %s: %s", from, as, told(&id))
				}
			}
		}
	}
}

// TestAnotherDomainsTokens: a pass or an i cookie of one domain, host or partner means nothing elsewhere.
func TestAnotherDomainsTokens(t *testing.T) {
	b := newBench(t, nil)
	shared := newService(t, nil)
	own := newService(t, func(c *ServiceConfig) { c.Domain = "" })
	old := start.Add(-2 * day)
	scope := func(d string) (func(*spravka.Pass), func(*iCookie)) {
		return func(p *spravka.Pass) { p.Scope = spravka.ScopeOf(d) }, func(c *iCookie) { c.scope = spravka.ScopeOf(d) }
	}
	for _, c := range []struct {
		s      *CookieSettings
		host   string
		scope  string
		accept bool
	}{
		{shared, "www.example.com", "example.com", true},
		{shared, "example.com", "example.com", true},
		{shared, "a.b.example.com", "example.com", true},
		{shared, "www.example.com", "www.example.com", false},
		{shared, "www.example.com", "example.org", false},
		{shared, "badexample.com", "example.com", false},
		{shared, "shop.example.org", "example.com", false},
		{shared, "shop.example.org", "shop.example.org", true}, // outside the domain a host has its own
		{own, "www.example.com", "www.example.com", true},
		{own, "www.example.com", "example.com", false},
		{own, "example.com", "www.example.com", false},
	} {
		p, i := scope(c.scope)
		v := page(start, "203.0.113.7", b.pass(start, p), b.i(old, i))
		v.Host = []byte(c.host)
		want := "spravka i ip"
		if !c.accept {
			want = "ip -spravka:domain -i:domain"
		}
		var id Identity
		for range 2 {
			if b.Resolve(&id, v, c.s); told(&id) != want {
				t.Errorf("scope %s on %s: %q, want %q", c.scope, c.host, told(&id), want)
			}
		}
	}
}

func TestPartners(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	ours := spravka.PartnerOf("shop")
	made := func(earned bool) string {
		return b.pass(start, func(p *spravka.Pass) { p.Partner, p.Earned = ours, earned })
	}
	user := netip.MustParseAddr("198.51.100.9")
	f := func(what, want string, has bool, partner uint64, at time.Time, cookies ...string) {
		t.Helper()
		v := page(at, "203.0.113.7", cookies...)
		var id Identity
		if partner == 0 {
			b.Resolve(&id, v, s)
		} else {
			b.ResolvePartner(&id, v, s, partner, user)
			if id.Addr != user || id.WantI {
				t.Errorf("%s: address %v, i cookie wanted %v", what, id.Addr, id.WantI)
			}
		}
		if told(&id) != want || id.HasPass() != has {
			t.Errorf("%s: %q, a pass is there: %v; want %q, %v", what, told(&id), id.HasPass(), want, has)
		}
	}
	f("earned, with its partner", "spravka ip", true, ours, start, made(true))
	f("earned, with another partner", "ip -spravka:domain", false, spravka.PartnerOf("other"), start, made(true))
	f("earned, from a browser", "ip -spravka:domain", false, 0, start, made(true))
	f("a browser's, with a partner", "ip -spravka:domain", false, ours, start, b.pass(start, nil))
	f("fresh", "ip -spravka:unearned", true, ours, start, made(false))
	f("fresh, days old", "spravka ip", true, ours, start.Add(2*day), made(false))
	f("none", "ip", false, ours, start)
	f("only the spravka is the user's", "ip", false, ours, start, signed(t, "L", "alice", start), signed(t, "sid", "x",
		start.Add(-2*day)), b.i(start.Add(-2*day), nil))
}

// TestSeveralPasses: duplicates count once, and a valid one behind invalid ones is found.
func TestSeveralPasses(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	good, other := b.pass(start, nil), b.pass(start, nil)
	bad := "spravka=junk"
	f := func(want string, passes int, cookies ...string) {
		t.Helper()
		var id Identity
		b.Resolve(&id, page(start, "203.0.113.7", cookies...), s)
		if told(&id) != want || id.NPasses != passes {
			t.Errorf("got %q with %d passes, want %q with %d", told(&id), id.NPasses, want, passes)
		}
	}
	f("spravka ip", 2, good, other)
	f("spravka ip", 1, good, good, good)
	f("spravka ip -spravka:malformed -spravka:malformed -spravka:malformed", 1, bad, bad, bad, good)
	f("spravka ip -spravka:malformed -spravka:malformed -spravka:malformed -spravka:malformed", 1, bad, bad, bad, bad,
		good)
	f("L ip -L:malformed", 0, "L=junk", signed(t, "L", "alice", start))
	f("ip -L:malformed -L:malformed -L:too many", 0, "L=junk", "L=junk", signed(t, "L", "alice", start))
}

func TestRevocation(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	p := spravka.Pass{
		ID: spravka.NewID(), Born: start.Unix(), Expires: start.Add(day).Unix(), Earned: true, Allowance: 1,
		Scope: spravka.ScopeOf("example.com"), Net: 7, Agent: 8, Shape: 9,
	}
	v := page(start, "203.0.113.7", "spravka="+string(b.keys.Ring().SealPass(nil, &p)))
	var id Identity
	if b.Resolve(&id, v, s); told(&id) != "spravka ip" || id.Passes[0] != p {
		t.Fatalf("%s, %+v", told(&id), id.Passes[0])
	}
	for _, c := range [][16]byte{campaign(7, 8), campaign(0, 9)} {
		b.revoked[c] = true
		if b.Resolve(&id, v, s); told(&id) != "ip -spravka:revoked" {
			t.Errorf("of a revoked campaign: %s", told(&id))
		}
		delete(b.revoked, c)
	}
	b.revoked[p.ID] = true
	if b.Resolve(&id, v, s); told(&id) != "ip -spravka:revoked" {
		t.Errorf("revoked while in the cache: %s", told(&id))
	}
}

// TestRemovedKeysTakeTheirTokensAlong: they leave the cache too, and what other keys sealed stays.
func TestRemovedKeysTakeTheirTokensAlong(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	old := start.Add(-2 * day)
	cookies := []string{b.pass(start, nil), b.i(old, nil), signed(t, "L", "alice", old), signed(t, "sid", "x", old)}
	v := page(start, "203.0.113.7", cookies...)
	var id Identity
	if b.Resolve(&id, v, s); told(&id) != "spravka L i service ip" || id.WantI {
		t.Fatalf("%s, i wanted %v", told(&id), id.WantI)
	}
	rotated, err := b.keys.Ring().Rotate(start, 30*day)
	if err != nil {
		t.Fatal(err)
	}
	b.use(t, rotated)
	if b.Resolve(&id, v, s); told(&id) != "spravka L i service ip" {
		t.Errorf("after a rotation: %s", told(&id))
	}
	other := newService(t, func(c *ServiceConfig) {
		c.Login.Keys = []KeyRef{{Key: strings.Repeat("x", 32)}}
		c.ServiceCookie.Keys = []KeyRef{{Key: strings.Repeat("y", 32)}}
	})
	if b.Resolve(&id, v, other); told(&id) != "spravka i ip -L:seal -service:seal" {
		t.Errorf("after new service keys: %s", told(&id))
	}
	both := newService(t, func(c *ServiceConfig) {
		c.Login.Keys = []KeyRef{{Key: strings.Repeat("x", 32)}, {Key: testKey}}
		c.ServiceCookie.Keys = []KeyRef{{Key: strings.Repeat("y", 32)}, {Key: testKey}}
	})
	if b.Resolve(&id, v, both); told(&id) != "spravka L i service ip" {
		t.Errorf("with old and new service keys: %s", told(&id))
	}
	gone, err := spravka.NewRing([]spravka.Key{spravka.MakeKey(start)})
	if err != nil {
		t.Fatal(err)
	}
	b.use(t, gone)
	if b.Resolve(&id, v, s); told(&id) != "L service ip -spravka:key -i:key" || !id.WantI {
		t.Errorf("after the key is gone: %s", told(&id))
	}
}

// TestCookieFields checks how cookies may appear in a request.
func TestCookieFields(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	l := signed(t, "L", "alice", start)
	f := func(want string, fields ...string) {
		t.Helper()
		v := page(start, "203.0.113.7")
		for _, c := range fields {
			v.Fields = append(v.Fields, request.Field{Name: []byte("cOOKIE"), Value: []byte(c)})
		}
		var id Identity
		if b.Resolve(&id, v, s); told(&id) != want {
			t.Errorf("%.60q: got %q, want %q", fields, told(&id), want)
		}
	}
	f("L ip", l)
	f("L ip", "a=b;"+l+";c=d")
	f("L ip", "a=b;   "+l+"  ; c=d")
	f("L ip", "a=b", l)
	f("L ip", `L="`+l[2:]+`"`)
	f("L ip", "junk; =x; ;;; "+l)
	f("ip", "l="+l[2:])
	f("ip", "XL="+l[2:])
	f("ip", "L x="+l[2:])
	f("ip", "x="+l)
	f("ip -L:malformed", "L=")
	f("ip -L:malformed", "L="+strings.Repeat("a", maxLogin+1))
	f("ip -spravka:malformed", "spravka="+strings.Repeat("a", maxToken+1))
	f("ip -fuid:malformed", "fuid01="+fmt.Sprintf("%08x", start.Add(-9*day).Unix())+strings.Repeat("a", maxFuid))
	f("ip -fuid:malformed", "fuid01=nothex00000")
	f("L ip", strings.Repeat("a=b;", maxCookies-1)+l)
	f("ip", strings.Repeat("a=b;", maxCookies)+l)
	f("ip", strings.Repeat("a=b;", maxCookies), l)
}

// maxCookies is how many cookies of a request are examined.
const maxCookies = 300

// TestHeaderFlood: pitfall 12, many cookies of every kind cost a bounded number of verifications and refusals.
func TestHeaderFlood(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	v := page(start, "203.0.113.7")
	for range 1000 {
		v.Fields = append(
			v.Fields, request.Field{Name: []byte("Cookie"), Value: []byte("spravka=x; L=x; i=x; fuid01=x; sid=x")},
		)
	}
	var id Identity
	b.Resolve(&id, v, s)
	if id.N != 1 || id.NRefused != len(id.Refused) {
		t.Errorf("%s", told(&id))
	}
	if n := b.cache.LookupCount(); n > 3*(maxTried/minTried+1)+4 {
		t.Errorf("%d proofs were tried", n)
	}
}

// TestOffKinds: kinds that a service switched off are not examined.
func TestOffKinds(t *testing.T) {
	b := newBench(t, nil)
	old := start.Add(-2 * day)
	cfg := DefaultServiceConfig()
	cfg.Domain, cfg.Fuid, cfg.ICookie = "example.com", fuidOff, ""
	s, err := NewCookieSettings(cfg)
	if err != nil {
		t.Fatal(err)
	}
	v := page(start, "203.0.113.7", fuid(old, "x"), b.i(old, nil), signed(t, "L", "alice", old), signed(t, "sid", "x",
		old), "=x")
	var id Identity
	if b.Resolve(&id, v, s); told(&id) != "ip" || id.WantI || b.MintI(nil, &id, v, s) != nil {
		t.Errorf("%s, i wanted %v", told(&id), id.WantI)
	}
}

// TestResolveInParallel is for the race detector.
func TestResolveInParallel(t *testing.T) {
	b, s := newBench(t, nil, func(d *Deps) { d.fuids = 64 }), newService(t, nil)
	old := start.Add(-2 * day)
	cookies := []string{b.pass(start, nil), b.i(old, nil), signed(t, "L", "alice", old), signed(t, "sid", "x", old)}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var id Identity
			for n := range 300 {
				at := start.Add(time.Duration(n) * time.Minute)
				v := page(at, "203.0.113.7", append(cookies, fuid(start.Add(-9*day), fmt.Sprint(g, n%50)))...)
				b.Resolve(&id, v, s)
				if got := told(&id); !strings.HasPrefix(got, "spravka L i service ip") {
					t.Errorf("%s", got)
				}
				id.WantI, id.i = true, iCookie{}
				b.MintI(nil, &id, v, s)
				if n%100 == 0 {
					if err := reload(b.Resolver, DefaultConfig()); err != nil {
						t.Error(err)
					}
					_ = b.fuids.since(start.Unix(), func([16]byte, sighting) error { return nil })
				}
			}
		})
	}
	wg.Wait()
}

func FuzzCookies(f *testing.F) {
	b, s := newBench(f, nil), newService(f, func(c *ServiceConfig) { c.Fuid = fuidTrusted })
	for _, c := range []string{
		b.pass(start, nil), b.i(start, nil), signed(f, "L", "alice", start), signed(f, "sid", "x", start), fuid(start.Add(-2*day), "x"),
		`L="; i=;; =; spravka`, "L=a.b.c",
	} {
		f.Add([]byte(c))
	}
	f.Fuzz(func(t *testing.T, cookies []byte) {
		v := page(start, "203.0.113.7")
		v.Fields = append(v.Fields, request.Field{Name: []byte("Cookie"), Value: cookies})
		var id Identity
		for range 2 {
			b.Resolve(&id, v, s)
			for i := range id.N {
				if back, err := ParseSubject(id.Subjects[i].String()); err != nil || back != id.Subjects[i] {
					t.Fatalf("%q: %s is read as %v: %v", cookies, id.Subjects[i], back, err)
				}
			}
			if id.N < 1 || id.Subjects[id.N-1].Kind != KindIP {
				t.Fatalf("%q: %s", cookies, told(&id))
			}
		}
	})
}
