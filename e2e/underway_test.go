package e2e

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// holdingSite is a service that answers /hold when it is released; each tells of itself in in.
func holdingSite(t *testing.T) (url string, in <-chan struct{}, release func()) {
	t.Helper()
	began, end := make(chan struct{}, 10_000), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			began <- struct{}{}
			<-end
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<title>a page</title>ok")
	}))
	t.Cleanup(s.Close)
	release = sync.OnceFunc(func() { close(end) })
	t.Cleanup(release)
	return s.URL, began, release
}

// answerOf is the status of an answer; 0: there is none.
func answerOf(t *testing.T, tr *http.Transport, url string) int {
	t.Helper()
	r, err := (&http.Client{Transport: tr, Timeout: patience}).Get(url)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

// plainHTTP2 is a client of HTTP/2 without TLS.
func plainHTTP2(t *testing.T) *http.Transport {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// TestPitfall12RequestsUnderWay: an address has as many requests of HTTP/2 under way as it may have, and each of its connections a few
// beyond.
func TestPitfall12RequestsUnderWay(t *testing.T) {
	t.Parallel()
	const limit, most = "requests_per_addr", 20
	service, in, release := holdingSite(t)
	addr := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, "listen: [{address: %q, h2c: true}]\nhttp: {max_%s: %d}\ndefaults: {upstream: {urls: [%q]}}\n", addr, limit, most, service))
	one, two := plainHTTP2(t), plainHTTP2(t)
	for _, tr := range []*http.Transport{one, two} { // requests that come before a connection is there may open another
		if got := answerOf(t, tr, "http://"+addr+"/more"); got != 200 {
			t.Fatalf("the first request of a connection gets %d", got)
		}
	}
	var held sync.WaitGroup
	for n := range most {
		tr := one
		if n%2 == 1 {
			tr = two
		}
		held.Go(func() {
			if got := answerOf(t, tr, "http://"+addr+"/hold"); got != 200 {
				t.Errorf("a request within the limit gets %d", got)
			}
		})
	}
	for range most {
		<-in
	}
	if got := answerOf(t, one, "http://"+addr+"/more"); got != 503 {
		t.Errorf("one more on the same connection gets %d", got)
	}
	if got := answerOf(t, plainHTTP2(t), "http://"+addr+"/more"); got != 200 {
		t.Errorf("one more on a new connection gets %d", got)
	}
	if got := answerOf(t, &http.Transport{DisableKeepAlives: true}, "http://"+addr+"/more"); got != 200 {
		t.Errorf("one more over HTTP/1.1, with a connection of its own, gets %d", got)
	}
	if n := g.metric(`antirobot_http_limits_total{limit="` + limit + `"}`); n == 0 {
		t.Error("none is counted")
	}
	release()
	held.Wait()
	eventually(t, "a request after the others have ended", func() bool { return answerOf(t, one, "http://"+addr+"/more") == 200 })
}

// TestNeighboursOfABusyAddress: while a client has all requests under way that its address may have, a connection that a neighbour
// had before goes on, and browsers that come from the address read pages with many parts, over HTTP/2 and HTTP/3.
func TestNeighboursOfABusyAddress(t *testing.T) {
	t.Parallel()
	const most, streams = 396, 99
	service, in, release := holdingSite(t)
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
http: {max_requests_per_addr: %d}
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, most, service))
	url := "https://" + address
	secure := func() *http.Transport {
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
		t.Cleanup(tr.CloseIdleConnections)
		if got := answerOf(t, tr, url+"/"); got != 200 {
			t.Fatalf("a connection begins with %d", got)
		}
		return tr
	}
	neighbour, quic := secure(), dialQUIC(t, address, "localhost")
	attackers := make([]*http.Transport, most/streams)
	for i := range attackers {
		attackers[i] = secure()
	}
	var held sync.WaitGroup
	defer held.Wait()
	defer release()
	for n := range most {
		held.Go(func() { answerOf(t, attackers[n/streams], url+"/hold") })
	}
	for range most {
		<-in
	}
	if got := answerOf(t, attackers[0], url+"/"); got != 503 {
		t.Errorf("one more of the attacker's gets %d", got)
	}
	if got := answerOf(t, neighbour, url+"/"); got != 200 {
		t.Errorf("a neighbour over HTTP/2 gets %d", got)
	}
	if got, err := quic.get(url + "/"); got != 200 {
		t.Errorf("a neighbour over HTTP/3 gets %d, %v", got, err)
	}
	for protocol, flags := range map[string][]chromedp.ExecAllocatorOption{
		"h2": {chromedp.Flag("ignore-certificate-errors", true)},
		"h3": {chromedp.Flag("disable-quic", false), chromedp.Flag("origin-to-force-quic-on", address), chromedp.Flag("ignore-certificate-errors-spki-list", keyHash(t, cert))},
	} {
		ctx := shell(t, flags...)
		run(t, ctx, "open a page", chromedp.Navigate(url+"/"), chromedp.Poll(`document.title === "a page"`, nil))
		if p := value[string](t, ctx, `performance.getEntriesByType("navigation")[0].nextHopProtocol`); p != protocol {
			t.Errorf("the page came by %s, not %s", p, protocol)
		}
		var parts []int
		run(t, ctx, "load its parts", chromedp.Evaluate(`Promise.all(Array.from({length: 60}, (_, i) => fetch("/part/" + i).then(r => r.status)))`, &parts,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		for i, status := range parts {
			if status != 200 {
				t.Errorf("%s: part %d of the page is answered with %d", protocol, i, status)
				break
			}
		}
	}
	if n := g.metric("antirobot_http3_connections_total"); n < 2 {
		t.Errorf("%v connections of HTTP/3", n)
	}
}
