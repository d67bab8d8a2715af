package e2e

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestHarvestBesideABalancer reads a shop through real balancers with the files of deploy/ and the default limits, by methods
// for which a service need not give its pages, and this one does. What is asked is stopped, whatever it calls itself; a page's own
// preflights go on even for who is asked.
func TestHarvestBesideABalancer(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]struct {
		settings string
		run      func(t *testing.T, g *checker, service string) string
	}{
		"nginx": {"", func(t *testing.T, g *checker, service string) string {
			return runNginx(t, "auth_request.conf", strings.TrimPrefix(g.check, "http://"), service)
		}},
		"HAProxy SPOE": {"spoe: [\"127.0.0.1:0\"]", func(t *testing.T, g *checker, service string) string {
			return runHAProxySPOE(t, strings.TrimPrefix(g.check, "http://"), g.listening("SPOE"), service)
		}},
		"Envoy": {"grpc: [\"127.0.0.1:0\"]", func(t *testing.T, g *checker, service string) string {
			return runEnvoy(t, strings.TrimPrefix(g.check, "http://"), g.listening("ext_authz"), service)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const (
				preflight = "Accept: */*\nSec-Fetch-Site: same-site\nSec-Fetch-Mode: cors\nSec-Fetch-Dest: empty\nOrigin: https://a.example\nAccess-Control-Request-Method: POST"
				image     = "Accept: image/webp,*/*;q=0.8\nSec-Fetch-Site: same-origin\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: image"
			)
			for _, make := range []struct {
				name, method, fields string
				banned               bool
				least, most          int
				path                 string
			}{
				{"preflights", "OPTIONS", preflight, false, 100, 500, "/product/%d"}, // as many calls are in order as nothing says that they are pages
				{"preflights of who is banned", "OPTIONS", preflight, true, 20, 20, "/product/%d"},
				{"those of a page of who is banned", "OPTIONS", preflight, true, 600, 600, "/api/item?id=1"},
				{"heads, as images", "HEAD", image, false, 2, 150, "/product/%d"},
			} {
				t.Run(make.name, func(t *testing.T) {
					s := lenient(t)
					g := serveCheck(t, s.URL, "style: verdict\n"+b.settings, "processor: {exempt: []}")
					url := b.run(t, g, strings.TrimPrefix(s.URL, "http://"))
					if make.banned {
						g.ban("ip:127.0.0.1", "10m")
					}
					const all = 600
					got := 0
					for n := range all {
						if asks(t, make.method, url+strings.ReplaceAll(make.path, "%d", strconv.Itoa(n)), make.fields) == 200 {
							got++
						}
					}
					t.Logf("%d of %d", got, all)
					if got < make.least || got > make.most {
						t.Errorf("the site has told of %d of %d, %d to %d are in order", got, all, make.least, make.most)
					}
				})
			}
		})
	}
}

// asks makes one request with a browser's name and fields, each a line, and returns the status of the answer.
func asks(t *testing.T, method, url, fields string) int {
	t.Helper()
	q, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("User-Agent", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36")
	for line := range strings.SplitSeq(fields, "\n") {
		field, value, _ := strings.Cut(line, ": ")
		q.Header.Set(field, value)
	}
	r, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode
}
