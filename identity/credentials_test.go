package identity

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"antirobot/request"
)

// call is a request of a program for a target, with the given fields.
func call(at time.Time, addr, target string, fields ...string) *request.View {
	path, query, asks := strings.Cut(target, "?")
	v := &request.View{
		At: at, Method: []byte("GET"), Host: []byte("api.example.com"), HostPort: []byte("api.example.com"),
		Target: []byte(target), Path: []byte(path), Peer: netip.MustParseAddr(addr), TLS: true,
		Fields: []request.Field{{Name: []byte("Host"), Value: []byte("api.example.com")}},
	}
	if asks {
		v.Query = []byte(query)
	}
	for i := 0; i < len(fields); i += 2 {
		v.Fields = append(v.Fields, request.Field{Name: []byte(fields[i]), Value: []byte(fields[i+1])})
	}
	return v
}

func basic(user string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":a password of "+user))
}

func noDrop(name []byte) bool { return request.HasPrefixFold(name, "x-forwarded-") }

// program is a bench with a service that answers requests.
type program struct {
	*bench
	t *testing.T
	s *CookieSettings
}

func newProgram(t *testing.T) *program {
	t.Helper()
	p := &program{newBench(t, nil), t, newService(t, nil)}
	p.s.ForService("api")
	return p
}

// answers has the service answer a request with a status.
func (p *program) answers(status int, v *request.View) { p.Answered(v, p.s, status, noDrop) }

// who is the winner of a request.
func (p *program) who(v *request.View) Subject {
	var id Identity
	p.Resolve(&id, v, p.s)
	return id.Winner()
}

// honours fails the test unless the Authorization of a request is, or is not, an identity.
func (p *program) honours(want bool, why string, v *request.View) {
	p.t.Helper()
	if who := p.who(v); (who.Kind == KindAuth) != want {
		p.t.Errorf("%s: it is %s", why, who)
	}
}

// TestHonouredAuthorization: an Authorization that the service honours where it refuses strangers is an identity of its
// own from any address, until the service refuses it.
func TestHonouredAuthorization(t *testing.T) {
	for _, status := range []int{401} {
		p := newProgram(t)
		alice := call(start, "192.0.2.1", "/repo?service=pull", "Authorization", basic("alice"))
		p.answers(200, alice)
		p.honours(false, "no stranger was refused yet", alice)
		p.answers(status, call(start, "198.51.100.1", "/repo?service=pull"))
		p.honours(false, "the service did not answer it since", alice)
		p.answers(200, alice)
		p.honours(true, "the service honours it", alice)
		const name = "Authorization"
		p.honours(true, "from elsewhere", call(start, "203.0.113.9", "/other", name, basic("alice")))
		p.honours(false, "another one", call(start, "192.0.2.1", "/repo?service=pull", name, basic("mallory")))
		p.honours(false, "two of them", call(start, "192.0.2.1", "/repo", name, basic("alice"), name, basic("alice")))
		p.honours(false, "none", call(start, "192.0.2.1", "/repo?service=pull"))

		other := newService(t, nil)
		other.ForService("shop")
		var id Identity
		if p.Resolve(&id, alice, other); id.Winner().Kind != KindIP {
			t.Errorf("another service is told of it: %s", id.Winner())
		}
		who := p.who(alice)
		if text := who.String(); !strings.HasPrefix(text, "auth:#") || len(text) != len("auth:#")+32 {
			t.Errorf("it is called %s", text)
		}
		if b := newProgram(t); b.credentials.keys == p.credentials.keys {
			t.Error("the hash has no key of its own")
		}
		p.answers(403, alice)
		p.honours(true, "something was forbidden to it", alice)
		p.answers(401, alice)
		p.honours(false, "the service refused it", alice)
	}
}

// TestHonouredAuthorizationLapses: a credential expires a week after the last 2xx, and a refusal after a day.
func TestHonouredAuthorizationLapses(t *testing.T) {
	p := newProgram(t)
	at := start
	alice := func() *request.View { return call(at, "192.0.2.1", "/repo", "Authorization", basic("alice")) }
	p.answers(401, call(at, "198.51.100.1", "/repo"))
	at = at.Add(25 * time.Hour)
	p.answers(200, alice())
	p.honours(false, "the stranger came a day before", alice())
	p.answers(401, call(at, "198.51.100.1", "/repo"))
	for range 3 {
		p.answers(200, alice())
		at = at.Add(6 * day)
		p.honours(true, "it is in use", alice())
	}
	at = at.Add(day + time.Second)
	p.honours(false, "it was not in use for a week", alice())
	p.answers(200, alice())
	p.honours(true, "it is in use again", alice())
}

// TestInventedAuthorization: an Authorization that the service ignores is no identity, neither on a public path nor
// where the service honours something else.
func TestInventedAuthorization(t *testing.T) {
	invented := basic("nobody")
	for name, try := range map[string]func(p *program){
		"a public path": func(p *program) {
			p.answers(200, call(start, "192.0.2.1", "/page"))
			p.answers(200, call(start, "192.0.2.1", "/page", "Authorization", invented))
		},
		"a public path where a stranger was refused": func(p *program) {
			p.answers(403, call(start, "198.51.100.1", "/page"))
			p.answers(200, call(start, "192.0.2.1", "/page"))
			p.answers(200, call(start, "192.0.2.1", "/page", "Authorization", invented))
		},
		"another query is open": func(p *program) {
			p.answers(401, call(start, "198.51.100.1", "/page?a=1"))
			p.answers(200, call(start, "192.0.2.1", "/page?a=2"))
			p.answers(200, call(start, "192.0.2.1", "/page?a=1", "Authorization", invented))
		},
		"a token in the query": func(p *program) {
			p.answers(401, call(start, "192.0.2.1", "/page?token=wrong"))
			p.answers(200, call(start, "192.0.2.1", "/page?token=right", "Authorization", invented))
		},
		"a session's cookie": func(p *program) {
			p.answers(401, call(start, "192.0.2.1", "/account"))
			p.answers(200, call(start, "192.0.2.1", "/account", "Cookie", "session=mine", "Authorization", invented))
		},
		"another key": func(p *program) {
			p.answers(401, call(start, "192.0.2.1", "/account"))
			p.answers(200, call(start, "192.0.2.1", "/account", "X-Api-Key", "mine", "Authorization", invented))
		},
		"an agent that is refused": func(p *program) {
			p.answers(403, call(start, "192.0.2.1", "/old", "User-Agent", "sqlmap"))
			p.answers(200, call(start, "192.0.2.1", "/old", "User-Agent", "Mozilla/5.0", "Authorization", invented))
		},
		"a certificate": func(p *program) {
			p.answers(401, call(start, "192.0.2.1", "/account"))
			v := call(start, "192.0.2.1", "/account", "Authorization", invented)
			v.Client = []byte("mine")
			p.answers(200, v)
		},
		"a login form": func(p *program) {
			for _, status := range []int{401, 200} {
				v := call(start, "192.0.2.1", "/login", "Authorization", invented)
				if status == 401 {
					v = call(start, "192.0.2.1", "/login")
				}
				v.Method, v.Body = []byte("POST"), true
				p.answers(status, v)
			}
		},
		"one that is new with each request": func(p *program) {
			p.answers(401, call(start, "192.0.2.1", "/page"))
			p.answers(200, call(start, "192.0.2.1", "/page", "Authorization", `Digest username="nobody", nonce="1"`))
		},
	} {
		p := newProgram(t)
		try(p)
		if n := p.credentials.honoured.Load(); n != 0 {
			t.Errorf("%s: %d credentials are honoured", name, n)
		}
	}
}

// TestBrowsersAuthorization: a browser asks for the password after a refusal, and sends its cookies with both requests.
func TestBrowsersAuthorization(t *testing.T) {
	p := newProgram(t)
	p.answers(401, call(start, "192.0.2.1", "/admin", "Cookie", "theme=dark"))
	cookies := "theme=dark; " + p.i(start, nil)
	alice := call(start, "192.0.2.1", "/admin", "Cookie", cookies, "Authorization", basic("alice"))
	p.answers(200, alice)
	p.honours(true, "the same but for the gateway's own cookie", alice)
}

// TestPitfall12HonouredAuthorizationsAreBounded: a network with a thousand accounts does not get a thousand identities.
func TestPitfall12HonouredAuthorizationsAreBounded(t *testing.T) {
	p := newProgram(t)
	at := start
	with := func(net, n int) *request.View {
		addr := fmt.Sprintf("192.%d.%d.%d", net>>8, net&255, n%250)
		return call(at, addr, "/repo", "Authorization", basic(fmt.Sprint(net, "-", n)))
	}
	count := func(net, of int) (n int) {
		for i := range of {
			if p.who(with(net, i)).Kind == KindAuth {
				n++
			}
		}
		return n
	}
	p.answers(401, call(at, "198.51.100.1", "/repo"))
	for i := range 1000 {
		p.answers(200, with(0, i))
	}
	if n := count(0, 1000); n != credentialsOfNet {
		t.Errorf("a network has %d identities", n)
	}
	at = at.Add(2 * time.Hour) // tokens that were renewed take the place of those before them
	for i := range 20 {
		p.answers(200, with(0, 1000+i))
	}
	if n, all := count(0, 1000), count(0, 1020); n != credentialsOfNet-20 || all != credentialsOfNet {
		t.Errorf("%d old ones are left of %d", n, all)
	}
	for net := 1; net < 500; net++ {
		for i := range 20 {
			p.answers(200, with(net, i))
		}
	}
	if n := p.credentials.honoured.Load(); n > credentialSets*credentialWays || n < credentialSets {
		t.Errorf("%d are kept", n)
	}
	for i := range 1_000_000 / 100 {
		p.answers(401, call(at, "192.0.2.1", fmt.Sprint("/", i)))
	}
}

// TestSharedAuthorization: a key that an app or a build farm brings to many networks tells nobody apart.
func TestSharedAuthorization(t *testing.T) {
	p := newProgram(t)
	at := start
	from := func(net int) *request.View {
		return call(at, fmt.Sprintf("192.0.%d.1", net), "/feed", "Authorization", "Bearer of-the-app")
	}
	p.answers(401, call(at, "198.51.100.1", "/feed"))
	for net := range networksOfOne {
		p.answers(200, from(net))
	}
	p.honours(true, "a few networks", from(0))
	p.answers(200, from(networksOfOne))
	p.honours(false, "many networks", from(0))
	at = at.Add(25 * time.Hour)
	p.honours(true, "a day later", from(0))
}

// TestAuthorizationAllocatesNothing: neither who is asking nor what was answered costs memory.
func TestAuthorizationAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := newProgram(t)
	stranger := call(start, "198.51.100.1", "/repo", "User-Agent", "git/2.47", "Cookie", "a=b")
	with := func(user string) *request.View {
		fields := []string{"User-Agent", "git/2.47", "Cookie", "a=b", "Authorization", basic(user)}
		return call(start, "192.0.2.1", "/repo", fields...)
	}
	alice, invented := with("alice"), with("mallory")
	p.answers(401, stranger)
	p.answers(200, alice)
	var id Identity
	for name, do := range map[string]func(){
		"honoured": func() { p.Resolve(&id, alice, p.s) },
		"invented": func() { p.Resolve(&id, invented, p.s) },
		"none":     func() { p.Resolve(&id, stranger, p.s) },
		"refused":  func() { p.answers(401, stranger) },
		"answered": func() { p.answers(200, alice) },
		"unproved": func() { p.answers(404, invented) },
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
