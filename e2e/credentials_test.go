package e2e

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quic-go/quic-go/http3"
)

// TestHonouredAuthorization: a program whose Authorization the service honours where it refuses strangers keeps working
// behind a banned address, over each version of HTTP; other clients of the address do not. A ban on the credential stops
// it at any address, and a 401 of the service ends the identity.
func TestHonouredAuthorization(t *testing.T) {
	t.Parallel()
	const secret = "a secret of "
	var revoked atomic.Pointer[string]
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Served-By", "site")
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		user, password, _ := r.BasicAuth()
		gone := revoked.Load()
		if r.URL.Path == "/repo" && (user == "" || password != secret+user || gone != nil && *gone == user) {
			w.Header().Set("WWW-Authenticate", `Basic realm="repo"`)
			w.WriteHeader(401)
			return
		}
		_, _ = io.WriteString(w, "site got "+r.URL.Path)
	}))
	t.Cleanup(s.Close)
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
identity: {trusted_proxies: [127.0.0.1]}
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, s.URL))
	trusting := &tls.Config{InsecureSkipVerify: true}
	over3 := &http3.Transport{TLSClientConfig: trusting}
	t.Cleanup(func() { _ = over3.Close() })
	for i, over := range []http.RoundTripper{
		&http.Transport{TLSClientConfig: trusting, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}},
		&http.Transport{TLSClientConfig: trusting, ForceAttemptHTTP2: true},
		over3,
	} {
		t.Run(fmt.Sprint("HTTP", i+1), func(t *testing.T) {
			office, home := fmt.Sprintf("203.0.%d.7", i), fmt.Sprintf("198.51.%d.7", i)
			alice, bob := fmt.Sprint("alice", i), fmt.Sprint("bob", i)
			ask := func(from, path, authorization string) *http.Response {
				t.Helper()
				req, err := http.NewRequest("GET", "https://"+address+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-Forwarded-For", from)
				if authorization != "" {
					req.Header.Set("Authorization", authorization)
				}
				res, err := over.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.ProtoMajor != i+1 {
					t.Fatalf("it came by %s", res.Proto)
				}
				return res
			}
			reaches := func(want bool, why string, res *http.Response) {
				t.Helper()
				if got := res.Header.Get("X-Served-By") == "site"; got != want || !want && res.StatusCode < 300 {
					t.Fatalf("%s: %d, reaches the service: %v, wanted %v", why, res.StatusCode, got, want)
				}
			}
			as := func(user string) string {
				return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+secret+user))
			}
			reaches(true, "a stranger", ask(office, "/repo", ""))
			reaches(true, "alice", ask(office, "/repo", as(alice)))
			reaches(true, "bob", ask(office, "/repo", as(bob)))
			reaches(true, "an open path", ask(office, "/page", "Bearer invented"))
			g.ban("ip:"+office, "10m")
			reaches(false, "a stranger at the banned address", ask(office, "/repo", ""))
			reaches(false, "an Authorization that nobody refused", ask(office, "/page", "Bearer invented"))
			reaches(false, "a wrong password", ask(office, "/repo", as(alice)+"x"))
			reaches(true, "alice at the banned address", ask(office, "/repo", as(alice)))
			res := ask(office, "/page", as(alice))
			reaches(true, "alice on another path", res)

			var subject string
			for _, at := range []string{office, home} {
				story := g.why(&response{Response: ask(at, "/page", as(alice))})
				subject = story.Subject
				if !strings.HasPrefix(subject, "auth:#") || !slices.Equal(story.Considered, []string{subject, "ip:" + at}) {
					t.Fatalf("why says %+v", story)
				}
			}
			if out, err := g.command("ban", subject); err != nil {
				t.Fatalf("antirobot ban %s: %s", subject, out)
			}
			reaches(false, "alice, banned", ask(office, "/repo", as(alice)))
			reaches(false, "alice, banned, from elsewhere", ask(home, "/repo", as(alice)))
			reaches(true, "bob", ask(office, "/repo", as(bob)))

			revoked.Store(&bob)
			if res := ask(office, "/repo", as(bob)); res.StatusCode != 401 {
				t.Fatalf("bob's revoked password: %d", res.StatusCode)
			}
			reaches(false, "bob, revoked", ask(office, "/page", as(bob)))
		})
	}
	if strings.Contains(g.logs.String(), base64.StdEncoding.EncodeToString([]byte("alice"))[:6]) {
		t.Error("a credential is in the log")
	}
}
