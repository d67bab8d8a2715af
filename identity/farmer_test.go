package identity

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"antirobot/request"
)

// visit loads a page and keeps the i cookie that it receives, as a browser does.
func (b *bench) visit(t *testing.T, s *CookieSettings, at time.Time, addr, cookie string) (id Identity, kept string) {
	t.Helper()
	v := page(at, addr)
	if cookie != "" {
		v = page(at, addr, cookie)
	}
	b.Resolve(&id, v, s)
	if set := b.MintI(nil, &id, v, s); set != nil {
		cookie, _, _ = strings.Cut(string(set), ";")
	}
	return id, cookie
}

// TestBrowserGrowsUp: a browser that keeps its cookie is a subject of its own after a day, and stays the same one for
// years.
func TestBrowserGrowsUp(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	at := start
	id, cookie := b.visit(t, s, at, "203.0.113.7", "")
	if told(&id) != "ip" || cookie == "" {
		t.Fatalf("%s, given %q", told(&id), cookie)
	}
	id, kept := b.visit(t, s, at.Add(day), "203.0.113.7", cookie)
	if told(&id) != "ip -i:young" || kept != cookie || id.IBirth != start.Unix() {
		t.Errorf("after a day: %s, given %q, born %d", told(&id), kept, id.IBirth)
	}
	id, _ = b.visit(t, s, at.Add(day+time.Second), "198.51.100.1", cookie)
	if told(&id) != "i ip" {
		t.Errorf("after more than a day: %s", told(&id))
	}
	who := id.Winner()
	renewed := 0
	for range 20 { // a visit every three months
		at = at.Add(90 * day)
		id, kept = b.visit(t, s, at, "203.0.113.7", cookie)
		if id.Winner() != who || id.IBirth != start.Unix() {
			t.Fatalf("at %v: %s", at, told(&id))
		}
		if kept != cookie {
			renewed++
		}
		cookie = kept
	}
	if renewed < 5 || renewed > 10 {
		t.Errorf("renewed %d times", renewed)
	}
	rotated, err := b.keys.Ring().Rotate(at, 30*day)
	if err != nil {
		t.Fatal(err)
	}
	b.use(t, rotated)
	id, kept = b.visit(t, s, at, "203.0.113.7", cookie)
	if id.Winner() != who || kept == cookie {
		t.Errorf("a new key: %s, renewed %v", told(&id), kept != cookie)
	}
	if id, _ = b.visit(t, s, at, "203.0.113.7", kept); id.Winner() != who || id.WantI {
		t.Errorf("renewed by the new key: %s", told(&id))
	}
}

// TestCookieFarmer simulates a client that creates identities in advance: thousands of i cookies and invented fuids
// from one network.
func TestCookieFarmer(t *testing.T) {
	const visits = 5000
	b, s := newBench(t, nil), newService(t, nil)
	farm := make([]string, 0, visits)
	for n := range visits {
		addr := fmt.Sprintf("203.0.113.%d", n%256)
		_, cookie := b.visit(t, s, start.Add(time.Duration(n)*100*time.Millisecond), addr, "")
		farm = append(farm, cookie)
		v := page(start, addr, fuid(start.Add(-300*day), fmt.Sprint(n)))
		var id Identity
		if b.Resolve(&id, v, s); told(&id) != "ip -fuid:unseen" {
			t.Fatalf("an invented fuid: %s", told(&id))
		}
	}
	identities, fuids := map[Subject]bool{}, 0
	for n, cookie := range farm {
		v := page(start.Add(2*day), "198.51.100.1", cookie, fuid(start.Add(-300*day), fmt.Sprint(n)))
		var id Identity
		b.Resolve(&id, v, s)
		for _, sub := range id.Subjects[:id.N] {
			switch sub.Kind {
			case KindI:
				identities[sub] = true
			case KindFuid:
				fuids++
			}
		}
	}
	if max := int(DefaultConfig().IPerHour); len(identities) > max || len(identities) < max/2 {
		t.Errorf("%d of %d i cookies grew up, at most %d may in an hour", len(identities), visits, max)
	}
	if max := fuidPerDay; fuids > max || fuids < max/2 {
		t.Errorf("%d of %d invented fuids grew up, at most %d may in a day", fuids, visits, max)
	}
	// A neighbouring network is not charged for it.
	_, cookie := b.visit(t, s, start, "203.0.114.7", "")
	if id, _ := b.visit(t, s, start.Add(2*day), "203.0.114.7", cookie); told(&id) != "i ip" {
		t.Errorf("the neighbour: %s", told(&id))
	}
	// Far above the rate nothing is sealed at all.
	if farm[visits-1] != "" {
		t.Errorf("visit %d of an hour was still given a cookie", visits)
	}
	// A cookie beyond the rate gets another chance a day later.
	crowded := farm[2*DefaultConfig().IPerHour]
	id, again := b.visit(t, s, start.Add(2*day), "203.0.113.7", crowded)
	if told(&id) != "ip -i:expired" || again == crowded {
		t.Fatalf("a crowded cookie two days later: %s", told(&id))
	}
	if id, _ := b.visit(t, s, start.Add(4*day), "203.0.113.7", again); told(&id) != "i ip" {
		t.Errorf("the second chance: %s", told(&id))
	}
}

// knownOffice has people known at each address.
type knownOffice int

func (k knownOffice) KnownAt([16]byte) int { return int(k) }

// TestKnownOfficeGetsCookies: an address gets cookies beyond the rate for the people whom it is known to have.
func TestKnownOfficeGetsCookies(t *testing.T) {
	for _, known := range []int{0, 40} {
		b, s := newBench(t, nil), newService(t, nil)
		b.visitors = knownOffice(known)
		n, cookies := 0, make([]string, 200)
		for i := range cookies {
			_, cookies[i] = b.visit(t, s, start, "203.0.113.7", "")
		}
		for _, cookie := range cookies {
			if id, _ := b.visit(t, s, start.Add(23*time.Hour), "203.0.113.7", cookie); id.Young().Kind == KindI {
				n++
			}
		}
		if want := int(DefaultConfig().IPerHour) + known; n != want {
			t.Errorf("with %d known, %d cookies may count, want %d", known, n, want)
		}
	}
}

// TestCrowdedGetAnotherChance: of an office whose people come in the same minute all have a cookie that may count
// within hours, and each stays the same browser; more than the rate in an hour never do.
func TestCrowdedGetAnotherChance(t *testing.T) {
	const people = 200
	b, s := newBench(t, nil), newService(t, nil)
	var cookies, ids [people]string
	rate := int(DefaultConfig().IPerHour)
	for hour := range 5 {
		at, counting := start.Add(time.Duration(hour)*time.Hour), 0
		for i, was := range cookies {
			var id Identity
			for range 3 { // pages
				id, cookies[i] = b.visit(t, s, at, "203.0.113.7", cookies[i])
			}
			who, known := id.Browser()
			if hour > 0 && (!known || string(who[:]) != ids[i]) {
				t.Fatalf("after %d hours a browser with %q is another one", hour, was)
			}
			ids[i] = string(who[:])
			if id.Young().Kind == KindI {
				counting++
			}
		}
		if want := min(rate*(hour+1), people); counting != want {
			t.Errorf("after %d hours %d have a cookie that will count, want %d", hour, counting, want)
		}
	}
	for _, cookie := range cookies {
		if id, _ := b.visit(t, s, start.Add(3*day), "203.0.113.7", cookie); told(&id) != "i ip" {
			t.Fatalf("three days later: %s", told(&id))
		}
	}
}

// TestCrowdedCookieNeverCounts: not even with a long life or a short age.
func TestCrowdedCookieNeverCounts(t *testing.T) {
	b, s := newBench(t, nil), newService(t, func(c *ServiceConfig) { c.IMinAge = 0 })
	cookie := b.i(start.Add(-9*day), func(c *iCookie) { c.crowded = true })
	if id, kept := b.visit(t, s, start, "203.0.113.7", cookie); told(&id) != "ip -i:crowded" || kept != cookie {
		t.Errorf("%s", told(&id))
	}
}

// TestWhoIsGivenACookie: browsers that load a page, and no other clients.
func TestWhoIsGivenACookie(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	set := func(v *request.View, name, value string) {
		for i := range v.Fields {
			if strings.EqualFold(string(v.Fields[i].Name), name) {
				v.Fields[i].Value = []byte(value)
			}
		}
	}
	drop := func(v *request.View, name string) { set(v, name, "") }
	f := func(what string, want bool, edit func(v *request.View)) {
		t.Helper()
		v := page(start, "203.0.113.7")
		edit(v)
		var id Identity
		b.Resolve(&id, v, s)
		if got := b.MintI(nil, &id, v, s) != nil; got != want || id.WantI != want {
			t.Errorf("%s: given %v, wanted %v", what, got, id.WantI)
		}
	}
	f("a page load", true, func(*request.View) {})
	f("an old browser's page load", true, func(v *request.View) { drop(v, "Sec-Fetch-Mode") })
	f("a POST", false, func(v *request.View) { v.Method = []byte("POST") })
	f("a HEAD", false, func(v *request.View) { v.Method = []byte("HEAD") })
	f("an image", false, func(v *request.View) { set(v, "Sec-Fetch-Mode", "no-cors") })
	f("a fetch", false, func(v *request.View) { set(v, "Sec-Fetch-Mode", "cors") })
	f("a program", false, func(v *request.View) { drop(v, "Sec-Fetch-Mode"); set(v, "Accept", "*/*") })
}

func TestSetCookieOfI(t *testing.T) {
	b := newBench(t, nil)
	f := func(s *CookieSettings, host string, tls bool, want string) {
		t.Helper()
		v := page(start, "203.0.113.7")
		v.Host, v.TLS = []byte(host), tls
		var id Identity
		b.Resolve(&id, v, s)
		got := string(b.MintI([]byte("x:"), &id, v, s))
		_, attributes, _ := strings.Cut(got, ";")
		if !strings.HasPrefix(got, "x:i=") || attributes != want {
			t.Errorf("%s: %s", host, got)
		}
		if len(got) > 300 {
			t.Errorf("%d bytes", len(got))
		}
	}
	shared := newService(t, func(c *ServiceConfig) { c.Domain = ".Example.com" })
	f(shared, "www.example.com", true, " Path=/; Domain=example.com; Max-Age=34560000; Secure; HttpOnly; SameSite=Lax")
	f(shared, "www.example.org", false, " Path=/; Max-Age=34560000; HttpOnly; SameSite=Lax")
	f(newService(t, func(c *ServiceConfig) { c.Domain = "" }), "www.example.com", true,
		" Path=/; Max-Age=34560000; Secure; HttpOnly; SameSite=Lax")
}

// TestFuidSeen: a fuid counts when this gateway has known it for more than a day, also across a restart.
func TestFuidSeen(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	f := fuid(start.Add(-300*day), "c0ffee")
	see := func(b *bench, at time.Duration, want string) {
		t.Helper()
		var id Identity
		if b.Resolve(&id, page(start.Add(at), "203.0.113.7", f), s); told(&id) != want {
			t.Errorf("after %v: %s, want %s", at, told(&id), want)
		}
	}
	see(b, 0, "ip -fuid:unseen")
	see(b, time.Hour, "ip -fuid:unseen")
	see(b, day, "ip -fuid:unseen")
	after := newBench(t, nil)
	_ = b.fuids.since(0, func(id [16]byte, e sighting) error {
		after.fuids.put(id, e, e.last)
		return nil
	})
	_ = b.fuids.since(start.Add(day+time.Second).Unix(), func([16]byte, sighting) error {
		t.Error("saved although not seen since")
		return nil
	})
	see(b, day+time.Second, "fuid ip")
	see(after, day+time.Second, "fuid ip")
	see(newBench(t, nil), day+time.Second, "ip -fuid:unseen")
}

// TestFuidGrowsUp: a fuid that does not count yet is what its visitor will be, from its first page on, unless the
// browser has a cookie of ours, or the value never counts.
func TestFuidGrowsUp(t *testing.T) {
	b, trusted := newBench(t, nil), newService(t, func(c *ServiceConfig) { c.Fuid = fuidTrusted })
	s := newService(t, nil)
	f := func(what string, s *CookieSettings, at time.Duration, want, young Kind, cookies ...string) {
		t.Helper()
		var id Identity
		b.Resolve(&id, page(start.Add(at), "203.0.113.7", cookies...), s)
		if got := id.Young().Kind; id.Winner().Kind != want || got != young {
			t.Errorf("%s: %s, to be %v, want %v and %v", what, told(&id), got, want, young)
		}
		if got := id.Young(); got.Kind == KindFuid &&
			got != TextSubject(KindFuid, []byte(strings.TrimPrefix(cookies[0], "fuid01="))) {
			t.Errorf("%s: it will be another: %v", what, got)
		}
	}
	old, fresh := fuid(start.Add(-300*day), "a"), fuid(start.Add(-time.Hour), "b")
	f("an old one", s, 0, KindIP, KindFuid, old)
	f("beside a young browser cookie", s, 0, KindIP, KindI, old, b.i(start, nil))
	f("beside a browser cookie that counts", s, 0, KindI, KindFuid, old, b.i(start.Add(-2*day), nil))
	f("a day later", s, day+time.Second, KindFuid, KindNone, old)
	f("a day later, the browser cookie is new", s, day+time.Second, KindFuid, KindI, old, b.i(start.Add(day), nil))
	f("one made an hour ago", s, 0, KindIP, KindFuid, fresh)
	f("a day later, without a second one", s, day+time.Second, KindFuid, KindNone, fresh)
	f("one of tomorrow", s, 0, KindIP, KindNone, fuid(start.Add(time.Hour), "c"))
	f("one of an hour ago, trusted", trusted, 0, KindIP, KindFuid, fresh)
	f("an old one, trusted", trusted, 0, KindFuid, KindNone, old)
	f("switched off", newService(t, func(c *ServiceConfig) { c.Fuid = fuidOff }), 0, KindIP, KindNone, old)
	b = newBench(t, nil, func(d *Deps) { d.fuidsPerDay = 1 })
	f("the first of its network", s, 0, KindIP, KindFuid, old)
	f("beyond what its network may show in a day", s, 0, KindIP, KindNone, fuid(start.Add(-300*day), "d"))
}

// TestFuidFlood: under a flood from many networks the table keeps its bound, and the visitors that it knows.
func TestFuidFlood(t *testing.T) {
	const size = 64 * 32
	b := newBench(t, nil, func(d *Deps) { d.fuids, d.fuidsPerDay = size, 100 })
	s := newService(t, nil)
	birth := start.Add(-300 * day)
	see := func(at time.Time, net, n int) string {
		addr := netip.AddrFrom4([4]byte{10, byte(net >> 8), byte(net), 1})
		var id Identity
		b.Resolve(&id, page(at, addr.String(), fuid(birth, fmt.Sprintf("%d-%d", net, n))), s)
		return id.Winner().Kind.String()
	}
	const people = size / 4
	for n := range people {
		see(start, n, 0)
	}
	for n := range people {
		if got := see(start.Add(2*day), n, 0); got != "fuid" {
			t.Fatalf("person %d is %s", n, got)
		}
	}
	for n := range 20 * size { // as many networks as necessary
		see(start.Add(3*day), 5000+n/50, 1+n)
	}
	if n := b.fuids.size(); n > size || n < size*9/10 {
		t.Errorf("%d remembered, the bound is %d", n, size)
	}
	lost := 0
	for n := range people {
		if see(start.Add(4*day), n, 0) != "fuid" {
			lost++
		}
	}
	if lost != 0 {
		t.Errorf("%d of %d people were pushed out", lost, people)
	}
	// Later newcomers take the place of the flood, and visitors who stay away make room too.
	for n := range 50 {
		see(start.Add(6*day), 30000+n, 0)
	}
	known := 0
	for n := range 50 {
		if see(start.Add(8*day), 30000+n, 0) == "fuid" {
			known++
		}
	}
	if known < 45 {
		t.Errorf("%d of 50 newcomers are known after the flood", known)
	}
}
