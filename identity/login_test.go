package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// issuer is a login service: an algorithm, its key, and how it is configured in Antirobot.
type issuer struct {
	method jwt.SigningMethod
	key    any
	ref    KeyRef
}

func issuers(t testing.TB) map[string]issuer {
	t.Helper()
	pub := func(name string, key any) KeyRef {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return KeyRef{KeyFile: file}
	}
	edPub, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]issuer{
		algHS256: {jwt.SigningMethodHS256, []byte(testKey), KeyRef{Key: testKey}},
		algEdDSA: {jwt.SigningMethodEdDSA, edKey, pub("ed.pem", edPub)},
		algRS256: {jwt.SigningMethodRS256, rsaKey, pub("rsa.pem", &rsaKey.PublicKey)},
	}
}

func (i issuer) token(t testing.TB, claims jwt.MapClaims, header ...string) string {
	t.Helper()
	tok := jwt.NewWithClaims(i.method, claims)
	for _, h := range header {
		tok.Header[h] = []string{"b64"}
	}
	s, err := tok.SignedString(i.key)
	if err != nil {
		t.Fatal(err)
	}
	return "L=" + s
}

func jwtService(t testing.TB, alg string, ref KeyRef, edit func(*LoginConfig)) *CookieSettings {
	return newService(t, func(c *ServiceConfig) {
		c.Login = LoginConfig{Cookie: "L", Algorithm: alg, Keys: []KeyRef{ref}}
		if edit != nil {
			edit(&c.Login)
		}
	})
}

func TestJWT(t *testing.T) {
	all := issuers(t)
	good := jwt.MapClaims{
		"sub": "alice", "exp": start.Add(time.Hour).Unix(), "iat": start.Unix(), "iss": "login",
		"aud": []string{"shop", "mail"},
	}
	with := func(key string, val any) jwt.MapClaims {
		c := jwt.MapClaims{}
		for k, v := range good {
			c[k] = v
		}
		if c[key] = val; val == nil {
			delete(c, key)
		}
		return c
	}
	for alg, is := range all {
		t.Run(alg, func(t *testing.T) {
			b := newBench(t, nil)
			s := jwtService(t, alg, is.ref, nil)
			f := func(s *CookieSettings, want, cookie string, at time.Time) {
				t.Helper()
				var id Identity
				for range 2 { // from the cache too
					b.Resolve(&id, page(at, "203.0.113.7", cookie), s)
					if got := told(&id); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
				if id.N == 2 && id.Subjects[0] != TextSubject(KindL, []byte("alice")) {
					t.Errorf("subject %s", id.Subjects[0])
				}
			}
			token := is.token(t, good)
			f(s, "L ip", token, start)
			f(s, "L ip", token, start.Add(time.Hour-time.Second))
			f(s, "ip -L:expired", token, start.Add(time.Hour))
			f(s, "ip -L:young", token, start.Add(-time.Hour))
			f(s, "ip -L:young", is.token(t, with("nbf", start.Add(time.Hour/2).Unix())), start)
			f(s, "ip -L:malformed", is.token(t, with("sub", nil)), start)
			f(s, "ip -L:malformed", is.token(t, with("sub", "a\nb")), start)
			f(s, "ip -L:malformed", is.token(t, with("sub", strings.Repeat("a", 257))), start)
			f(s, "ip -L:malformed", is.token(t, with("exp", nil)), start)
			f(s, "ip -L:expired", is.token(t, with("exp", -1)), start)
			f(s, "ip -L:seal", is.token(t, good, "crit"), start)
			f(s, "ip -L:malformed", "L=a.b.c", start)
			f(s, "ip -L:seal", token[:len(token)-4]+"AAAA", start)
			head, rest, _ := strings.Cut(token, ".")
			f(s, "ip -L:malformed", head+"."+rest[3:], start)

			aged := jwtService(t, alg, is.ref, func(l *LoginConfig) { l.MaxAge = 10 * time.Minute })
			f(aged, "L ip", token, start.Add(10*time.Minute))
			f(aged, "ip -L:expired", token, start.Add(10*time.Minute+time.Second))
			f(aged, "L ip", is.token(t, with("exp", nil)), start)

			named := jwtService(t, alg, is.ref, func(l *LoginConfig) { l.Issuer, l.Audience = "login", "mail" })
			f(named, "L ip", token, start)
			f(named, "ip -L:domain", is.token(t, with("iss", "evil")), start)
			f(named, "ip -L:domain", is.token(t, with("aud", "other")), start)
			f(named, "ip -L:domain", is.token(t, with("aud", nil)), start)

			siblings := map[string][]jwt.SigningMethod{ // with the same key
				algHS256: {jwt.SigningMethodHS384, jwt.SigningMethodHS512},
				algRS256: {jwt.SigningMethodRS512, jwt.SigningMethodPS256},
			}
			for _, m := range siblings[alg] {
				f(s, "ip -L:seal", issuer{m, is.key, is.ref}.token(t, good), start)
			}
			// Whatever algorithm the token names, the config's decides.
			for other, o := range all {
				if other != alg {
					f(s, "ip -L:seal", o.token(t, good), start)
				}
			}
			none, err := jwt.NewWithClaims(jwt.SigningMethodNone, good).SignedString(jwt.UnsafeAllowNoneSignatureType)
			if err != nil {
				t.Fatal(err)
			}
			f(s, "ip -L:seal", "L="+none, start)
			public, err := is.ref.read()
			if err != nil {
				t.Fatal(err)
			}
			if alg != algHS256 { // the classic attack: a public key used as a shared one
				f(s, "ip -L:seal", issuer{jwt.SigningMethodHS256, public, KeyRef{}}.token(t, good), start)
			}
		})
	}
}

func TestKeySources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(testKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ANTIROBOT_TEST_KEY", testKey)
	b := newBench(t, nil)
	for _, ref := range []KeyRef{{Key: testKey}, {KeyFile: file}, {KeyEnv: "ANTIROBOT_TEST_KEY"}} {
		s := newService(t, func(c *ServiceConfig) { c.Login.Keys = []KeyRef{ref} })
		var id Identity
		if b.Resolve(&id, page(start, "203.0.113.7", signed(t, "L", "alice", start)), s); told(&id) != "L ip" {
			t.Errorf("%v: %s", ref, told(&id))
		}
	}
}
