package identity

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/request"
	"antirobot/spravka"
)

// start is the time at which the tests take place.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const testKey = "0123456789abcdef0123456789abcdef"

// bench is a Resolver with everything that a test adjusts.
type bench struct {
	*Resolver
	keys    *spravka.Keys
	revoked revoked
	set     *metrics.Set
}

type revoked map[[16]byte]bool

func (r revoked) Revoked(id [16]byte, _ int64) bool { return r[id] }

func (r revoked) RevokedCampaign(net, agent uint64, _ int64) bool {
	return r[campaign(net, agent)]
}

// campaign is the key of a campaign among what is revoked.
func campaign(net, agent uint64) (k [16]byte) {
	binary.BigEndian.PutUint64(k[:], net)
	binary.BigEndian.PutUint64(k[8:], agent)
	return k
}

// use puts another key ring into use.
func (b *bench) use(t testing.TB, ring *spravka.Ring) {
	t.Helper()
	commit, err := b.keys.Prepare(ring)
	if err != nil {
		t.Fatal(err)
	}
	commit()
}

func reload(r *Resolver, c Config) error {
	commit, err := r.Prepare(c)
	if err == nil {
		commit()
	}
	return err
}

func newBench(t testing.TB, edit func(*Config), change ...func(*Deps)) *bench {
	t.Helper()
	ring, err := spravka.NewRing([]spravka.Key{spravka.MakeKey(start.Add(-time.Hour))})
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	if edit != nil {
		edit(&c)
	}
	b := &bench{keys: spravka.NewKeys(ring), revoked: revoked{}, set: metrics.NewSet()}
	d := Deps{Keys: b.keys, Revocations: b.revoked, Metrics: b.set, TokenCache: 8 << 20, fuids: 10_000}
	for _, f := range change {
		f(&d)
	}
	b.Resolver, err = New(c, d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newService(t testing.TB, edit func(*ServiceConfig)) *CookieSettings {
	t.Helper()
	c := DefaultServiceConfig()
	c.Domain = "example.com"
	c.Login.Algorithm = "hmac"
	c.Login.Keys = []KeyRef{{Key: testKey}}
	c.ServiceCookie.Name = "sid"
	c.ServiceCookie.Keys = []KeyRef{{Key: testKey}}
	if edit != nil {
		edit(&c)
	}
	s, err := NewCookieSettings(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// page is a page load of a browser from addr with the given cookies.
func page(at time.Time, addr string, cookies ...string) *request.View {
	v := &request.View{
		At: at, Method: []byte("GET"), Host: []byte("www.example.com"), HostPort: []byte("www.example.com"),
		Target: []byte("/"), Path: []byte("/"), Peer: netip.MustParseAddr(addr), TLS: true,
		Fields: []request.Field{
			{Name: []byte("Host"), Value: []byte("www.example.com")},
			{
				Name:  []byte("User-Agent"),
				Value: []byte("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
			},
			{Name: []byte("Accept"), Value: []byte("text/html,application/xhtml+xml,*/*;q=0.8")},
			{Name: []byte("Accept-Language"), Value: []byte("en")},
			{Name: []byte("Accept-Encoding"), Value: []byte("gzip, br")},
			{Name: []byte("Sec-Fetch-Dest"), Value: []byte("document")},
			{Name: []byte("Sec-Fetch-Mode"), Value: []byte("navigate")},
			{Name: []byte("Sec-Fetch-Site"), Value: []byte("none")},
			{Name: []byte("Connection"), Value: []byte("keep-alive")},
		},
	}
	if len(cookies) > 0 {
		v.Fields = append(v.Fields, request.Field{Name: []byte("Cookie"), Value: []byte(strings.Join(cookies, "; "))})
	}
	return v
}

func (b *bench) pass(born time.Time, edit func(*spravka.Pass)) string {
	p := spravka.Pass{
		ID: spravka.NewID(), Born: born.Unix(), Expires: born.Add(30 * day).Unix(), Allowance: 100, Earned: true,
		Scope: spravka.ScopeOf("example.com"),
	}
	if edit != nil {
		edit(&p)
	}
	return "spravka=" + string(b.keys.Ring().SealPass(nil, &p))
}

func (b *bench) i(born time.Time, edit func(*iCookie)) string {
	c := iCookie{id: spravka.NewID(), born: born.Unix(), scope: spravka.ScopeOf("example.com")}
	if edit != nil {
		edit(&c)
	}
	return "i=" + string(b.keys.Ring().Seal(nil, spravka.PurposeICookie, nil, c.append(nil), born.Add(iLifetime)))
}

func signed(t testing.TB, name, value string, born time.Time) string {
	t.Helper()
	s, err := spravka.SignService(name, value, born, []byte(testKey))
	if err != nil {
		t.Fatal(err)
	}
	return name + "=" + s
}

func fuid(born time.Time, rest string) string {
	return fmt.Sprintf("fuid01=%08x%s", born.Unix(), rest)
}

// told is what Resolve found, in printed form: the subjects, then the refusals.
func told(id *Identity) string {
	var words []string
	for i := range id.N {
		words = append(words, id.Subjects[i].Kind.String())
	}
	for _, r := range id.Refused[:id.NRefused] {
		words = append(words, "-"+r.Kind.String()+":"+r.Reason.String())
	}
	return strings.Join(words, " ")
}

// TestOrderOfKinds: all kinds at once, the strongest first, the address last.
func TestOrderOfKinds(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	old := start.Add(-2 * day)
	f := fuid(start.Add(-10*day), "c0ffee")
	var id Identity
	b.Resolve(&id, page(old, "203.0.113.7", f), s) // the gateway gets to know the fuid
	b.Resolve(&id, page(start, "203.0.113.7", signed(t, "sid", "1234", old), b.i(old, nil), f,
		signed(t, "L", "alice", old), b.pass(start, nil)), s)
	if got, want := told(&id), "spravka L fuid i service ip"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range id.N {
		printed := id.Subjects[i].String()
		back, err := ParseSubject(printed)
		if err != nil || back != id.Subjects[i] {
			t.Errorf("%s parses to %v, %v", printed, back, err)
		}
	}
	for i, text := range map[int]string{1: "L:alice", 4: "service:sid=1234", 5: "ip:203.0.113.7"} {
		if want, err := ParseSubject(text); err != nil || id.Subjects[i] != want {
			t.Errorf("subject %d is %s, want %s, which is %s (%v)", i, id.Subjects[i], text, want, err)
		}
	}
}

// TestResolveDoesNotAllocate: with every kind in the cache.
func TestResolveDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b, s := newBench(t, func(c *Config) { c.TrustedProxies = []string{"10.0.0.0/8"} }), newService(t, nil)
	old := start.Add(-2 * day)
	f := fuid(start.Add(-10*day), "c0ffee")
	var id Identity
	b.Resolve(&id, page(old, "203.0.113.7", f), s)
	v := page(start, "10.0.0.1", signed(t, "sid", "1234", old), b.i(old, nil), f, signed(t, "L", "alice", old),
		b.pass(start, nil), b.pass(start, nil), "a=b", "c=d")
	v.Fields = append(v.Fields, request.Field{Name: []byte("X-Forwarded-For"), Value: []byte("2001:db8::7, 10.0.0.2")})
	b.Resolve(&id, v, s)
	if got := told(&id); got != "spravka L fuid i service ip" {
		t.Fatal(got)
	}
	if n := testing.AllocsPerRun(1000, func() { b.Resolve(&id, v, s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkResolve(b *testing.B) {
	be, s := newBench(b, func(c *Config) { c.TrustedProxies = []string{"10.0.0.0/8"} }), newService(b, nil)
	old := start.Add(-2 * day)
	f := fuid(start.Add(-10*day), "c0ffee")
	var id Identity
	be.Resolve(&id, page(old, "203.0.113.7", f), s)
	junk := []string{"_ga=GA1.2.1234567890.1700000000", "theme=dark", "session_hint=abcdefabcdefabcdef"}
	for _, c := range []struct {
		name    string
		cookies []string
	}{
		{"no-cookies", nil},
		{"foreign-cookies", junk},
		{"proxied", nil},
		{"i", append(junk, be.i(old, nil))},
		{"pass", append(junk, be.pass(start, nil))},
		{"pass-and-i", append(junk, be.pass(start, nil), be.i(old, nil))},
		{"all", append(junk, signed(b, "sid", "1234", old), be.i(old, nil), f, signed(b, "L", "alice", old), be.pass(start, nil))},
	} {
		v := page(start, "203.0.113.7", c.cookies...)
		if c.name == "proxied" {
			v.Peer = netip.MustParseAddr("10.0.0.1")
			v.Fields = append(
				v.Fields, request.Field{Name: []byte("X-Forwarded-For"), Value: []byte("198.51.100.1, 10.0.0.2")},
				request.Field{Name: []byte("X-Forwarded-Proto"), Value: []byte("https")},
			)
		}
		b.Run(c.name, func(b *testing.B) {
			var id Identity
			b.ReportAllocs()
			for b.Loop() {
				be.Resolve(&id, v, s)
			}
		})
	}
}

// BenchmarkResolveManyPasses has 100 thousand live passes in the cache and takes them in random order, so that neither
// the processor's caches nor its predictions help. The head of the request itself is warm, as it is when it was just
// read from the connection; the cost of putting it there is measured too and subtracted.
func BenchmarkResolveManyPasses(b *testing.B) {
	passes := 100_000
	if testing.Short() { // no figure is quoted
		passes = 1000
	}
	be, s := newBench(b, nil, func(d *Deps) { d.TokenCache = 0 }), newService(b, nil)
	v := page(start, "203.0.113.7", be.pass(start, nil))
	cookie := v.Fields[len(v.Fields)-1].Value
	cookies := make([]byte, 0, passes*len(cookie))
	var id Identity
	for range passes {
		copy(cookie, be.pass(start, nil))
		cookies = append(cookies, cookie...)
		be.Resolve(&id, v, s)
	}
	be.cache.ResetStatistics()
	rng := uint32(1)
	load := func() {
		rng = rng*1664525 + 1013904223
		copy(cookie, cookies[int(rng>>8)%passes*len(cookie):])
	}
	began := time.Now()
	for range 1_000_000 {
		load()
	}
	perLoad := float64(time.Since(began)) / 1_000_000
	b.ReportAllocs()
	for b.Loop() {
		load()
		be.Resolve(&id, v, s)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)-perLoad, "ns/resolve")
	b.ReportMetric(100*be.cache.HitRate(), "%hits")
	if id.NPasses != 1 {
		b.Fatal(told(&id))
	}
}
