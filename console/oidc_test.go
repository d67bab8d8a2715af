package console

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/admin"
)

// identityProvider is a provider of OpenID Connect: it signs with a key of its own, asks for PKCE and the client's secret, and gives
// a code out once. What it says of the person, tests change.
type identityProvider struct {
	*httptest.Server
	key    ed25519.PrivateKey
	codes  map[string]url.Values // what each was asked with
	claims map[string]any
	info   map[string]any // what it says beside the token; nil: it refuses
}

const clientSecret = "between-us"

func newIdentityProvider(t *testing.T) *identityProvider {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &identityProvider{key: key, codes: map[string]url.Values{}, claims: map[string]any{}}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/userinfo",
			"id_token_signing_alg_values_supported": []string{"EdDSA"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		x := base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
		answer(w, map[string]any{"keys": []any{map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": "1", "use": "sig", "alg": "EdDSA", "x": x}}})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		asked := p.codes[r.FormValue("code")]
		delete(p.codes, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		id, secret, _ := r.BasicAuth()
		if asked == nil || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("code_challenge_method") != "S256" ||
			id != "console" || secret != clientSecret || r.FormValue("redirect_uri") != asked.Get("redirect_uri") {
			w.WriteHeader(400)
			answer(w, map[string]string{"error": "invalid_grant"})
			return
		}
		claims := map[string]any{"iss": p.URL, "aud": "console", "sub": "7", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "nonce": asked.Get("nonce")}
		for k, v := range p.claims {
			claims[k] = v
		}
		answer(w, map[string]string{"access_token": "x", "token_type": "Bearer", "id_token": p.sign(claims)})
	})
	mux.HandleFunc("/userinfo", func(w http.ResponseWriter, r *http.Request) {
		if p.info == nil || r.Header.Get("Authorization") != "Bearer x" {
			w.WriteHeader(403)
			return
		}
		answer(w, p.info)
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *identityProvider) sign(claims map[string]any) string {
	part := func(v any) string {
		text, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]string{"alg": "EdDSA", "kid": "1"}) + "." + part(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(p.key, []byte(text)))
}

// agree is the person who signs in there: it follows the console's link and returns where the provider leads back to.
func (p *identityProvider) agree(t *testing.T, b *tab) string {
	t.Helper()
	status, body, to := b.ask("/console/oidc?back=/console/lists", "")
	at, err := url.Parse(to)
	if err != nil || status != 303 || !strings.HasPrefix(to, p.URL+"/authorize?") {
		t.Fatalf("%d %s %v %s", status, to, err, body)
	}
	q := at.Query()
	if q.Get("redirect_uri") != "https://gate.example/console/oidc" || q.Get("response_type") != "code" || q.Get("scope") != "openid profile email" || q.Get("nonce") == "" {
		t.Errorf("asked with %v", q)
	}
	code := secret()
	p.codes[code] = q
	return "/console/oidc?" + url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
}

// TestOpenIDConnect: who signs in at the provider acts under their name and with the role of their groups; a code, a state and a nonce
// are good once, for the browser that began, and what the provider did not sign for this client signs nobody in.
func TestOpenIDConnect(t *testing.T) {
	p := newIdentityProvider(t)
	at := time.Now()
	others := func(c *Console) {
		t.Helper()
		for range 20 {
			if status, _, _ := open(t, c).ask("/console/oidc?state=x&code=y", ""); status != 403 {
				t.Errorf("a wrong state: %d", status)
			}
		}
	}
	cfg := &admin.OIDCConfig{
		Issuer: p.URL, ClientID: "console", RoleClaim: "realm.roles",
		Roles: admin.OIDCRoles{Viewer: []string{"staff"}, Operator: []string{"duty", "night"}},
	}
	g := new(gate)
	c := New(Deps{API: g, URL: "https://gate.example/", OIDC: cfg, Secret: clientSecret, Now: func() time.Time { return at }})
	olga := map[string]any{"email": "olga@example.com", "realm": map[string]any{"roles": []string{"staff", "night"}}}
	come := func(b *tab, back string, want int, text string) {
		t.Helper()
		status, body, _ := b.ask(back, "")
		if status != want || !strings.Contains(body, text) {
			t.Errorf("%d %s, want %d with %q", status, body, want, text)
		}
		if status, _, _ := b.ask("/console/lists", ""); (status == 200) != (want == 200) {
			t.Errorf("the lists answer %d", status)
		}
		at = at.Add(2 * time.Minute) // tries are limited
	}
	p.claims = olga
	b := openOIDC(t, c)
	back := p.agree(t, b)
	others(c) // which any page can have a browser of theirs open
	come(b, back, 200, `href="/console/lists"`)
	_, page, _ := b.ask("/console/lists", "")
	if !strings.Contains(page, "oidc:olga@example.com (operator)") {
		t.Errorf("the page does not say who acts: %s", page)
	}
	g.asked = nil
	b.ask("/console/act", "do=ban&subject=203.0.113.7&ttl=1h&token="+formToken.FindStringSubmatch(page)[1])
	if len(g.asked) != 1 || !strings.HasPrefix(g.asked[0], "oidc:olga@example.com POST /api/bans") {
		t.Errorf("who acted: %q", g.asked)
	}
	come(openOIDC(t, c), back, 403, "did not succeed")                       // spent
	come(openOIDC(t, c), p.agree(t, openOIDC(t, c)), 403, "did not succeed") // begun in another browser
	for name, claims := range map[string]map[string]any{
		"another client": {"aud": "shop"}, "another issuer": {"iss": "https://id.example"}, "another nonce": {"nonce": "x"}, "ended": {"exp": time.Now().Add(-time.Hour).Unix()},
	} {
		p.claims = map[string]any{"email": "x", "realm": olga["realm"]}
		for k, v := range claims {
			p.claims[k] = v
		}
		b := openOIDC(t, c)
		t.Run(name, func(*testing.T) { come(b, p.agree(t, b), 403, "did not succeed") })
	}
	p.claims, p.info = map[string]any{"email": "vera@example.com", "realm": map[string]any{"roles": "guests"}}, map[string]any{"sub": "7", "realm": olga["realm"]}
	b = openOIDC(t, c)
	come(b, p.agree(t, b), 403, "no role here")
	b = openOIDC(t, c)
	come(b, p.agree(t, b), 403, `href="/console/oidc?back=%2fconsole%2flists"`) // the next try leads there too
	b = openOIDC(t, c)
	back = p.agree(t, b)
	at = at.Add(2 * linkLife)
	come(b, back, 403, "did not succeed")
	p.claims, p.key = olga, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	b = openOIDC(t, c)
	come(b, p.agree(t, b), 403, "did not succeed") // a key that the provider does not have
}

// TestClaimsBesideTheToken: what the token leaves out is taken from what the provider says of the same person beside it.
func TestClaimsBesideTheToken(t *testing.T) {
	p := newIdentityProvider(t)
	at := time.Now()
	c := New(Deps{API: new(gate), URL: "https://gate.example", Secret: clientSecret, Now: func() time.Time { return at }, OIDC: &admin.OIDCConfig{
		Issuer: p.URL, ClientID: "console", RoleClaim: "groups",
		Roles: admin.OIDCRoles{Viewer: []string{"staff"}, Operator: []string{"duty"}},
	}})
	for _, is := range []struct {
		name         string
		claims, info map[string]any
		want         string // empty: nobody
	}{
		{"all beside it", nil, map[string]any{"sub": "7", "email": "olga@example.com", "groups": "duty"}, "oidc:olga@example.com (operator)"},
		{"the token holds", map[string]any{"groups": "staff"}, map[string]any{"sub": "7", "email": "olga@example.com", "groups": "duty"}, "oidc:olga@example.com (viewer)"},
		{"of another person", nil, map[string]any{"sub": "8", "email": "olga@example.com", "groups": "duty"}, ""},
		{"refused", nil, nil, ""},
		{"refused, the role is known", map[string]any{"groups": "staff"}, nil, "oidc:7 (viewer)"},
	} {
		t.Run(is.name, func(t *testing.T) {
			p.claims, p.info = is.claims, is.info
			b := openOIDC(t, c)
			status, body, _ := b.ask(p.agree(t, b), "")
			_, page, _ := b.ask("/console/lists", "")
			if (status == 200) != (is.want != "") || !strings.Contains(page, is.want) {
				t.Errorf("%d %s, then %s", status, body, page)
			}
			at = at.Add(2 * time.Minute)
		})
	}
}

// openOIDC is a browser without cookies at the page that offers the provider.
func openOIDC(t *testing.T, c *Console) *tab {
	t.Helper()
	b := open(t, c)
	if _, body, _ := b.ask("/console/signin", ""); !strings.Contains(body, `href="/console/oidc"`) {
		t.Errorf("the provider is not offered: %s", body)
	}
	return b
}

// TestNobodySignedIn: the log says why nobody was signed in: what the provider said when it refused, which claim it left out, and what
// a claim had that gives no role. What others write into the address is not logged.
func TestNobodySignedIn(t *testing.T) {
	p := newIdentityProvider(t)
	var lines bytes.Buffer
	at := time.Now()
	c := New(Deps{API: new(gate), URL: "https://gate.example", Secret: clientSecret, Log: zerolog.New(&lines), Now: func() time.Time { return at }, OIDC: &admin.OIDCConfig{
		Issuer: p.URL, ClientID: "console", RoleClaim: "groups",
		Roles: admin.OIDCRoles{Viewer: []string{"staff"}},
	}})
	refused := func(back string) string {
		u, _ := url.Parse(back)
		q := u.Query()
		q.Del("code")
		q.Set("error", "invalid_scope")
		q.Set("error_description", "there is no such scope")
		return "/console/oidc?" + q.Encode()
	}
	for _, is := range []struct {
		name      string
		claims    map[string]any
		come      func(b *tab) string
		page, log string // log empty: nothing
	}{
		{"refused there", nil, func(b *tab) string { return refused(p.agree(t, b)) }, "The provider refused", "invalid_scope: there is no such scope"},
		{"refused, in an attempt of somebody else", nil, func(*tab) string { return refused(p.agree(t, openOIDC(t, c))) }, "did not succeed", ""},
		{"without the claim", map[string]any{"email": "vera@example.com"}, func(b *tab) string { return p.agree(t, b) }, "no role here", "says nothing of groups, only of aud, email, exp, iat, iss, nonce, sub: does admin.oidc.role_claim name another?"},
		{"with other values", map[string]any{"groups": []string{"guests", "press"}}, func(b *tab) string { return p.agree(t, b) }, "no role here", "groups is guests, press"},
		{"with no value", map[string]any{"groups": []string{}}, func(b *tab) string { return p.agree(t, b) }, "no role here", "groups is empty"},
	} {
		t.Run(is.name, func(t *testing.T) {
			lines.Reset()
			p.claims, p.info = is.claims, map[string]any{"sub": "7"}
			b := openOIDC(t, c)
			status, body, _ := b.ask(is.come(b), "")
			if status != 403 || !strings.Contains(body, is.page) {
				t.Errorf("%d %s", status, body)
			}
			line := map[string]any{}
			_ = json.Unmarshal(lines.Bytes(), &line)
			if text, _ := line["error"].(string); !strings.Contains(text, is.log) || (text == "") != (is.log == "") {
				t.Errorf("logged: %s", &lines)
			}
			at = at.Add(2 * time.Minute)
		})
	}
}

// TestProviderAway: a provider that does not answer leaves the tokens.
func TestProviderAway(t *testing.T) {
	p := newIdentityProvider(t)
	p.Close()
	c := New(Deps{API: new(gate), URL: "https://gate.example", OIDC: &admin.OIDCConfig{Issuer: p.URL, ClientID: "console"}})
	b := open(t, c)
	if status, body, _ := b.ask("/console/oidc", ""); status != 502 || !strings.Contains(body, "does not answer") {
		t.Errorf("%d %s", status, body)
	}
	b.signIn(viewerToken)
}
