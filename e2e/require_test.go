package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// asking is a service that asks itself: on /signup for digits, and on /checkout for the moving picture, unless it is told that they
// were passed; on /always for the moving picture, whatever it is told.
func asking(t *testing.T) (url string, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	told := regexp.MustCompile(`^digits;at=\d{10};id=[0-9a-f]{16}(;for=dynamic)?$`)
	moved := regexp.MustCompile(`^dynamic;at=\d{10};id=[0-9a-f]{16}$`)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		body, _ := io.ReadAll(r.Body)
		switch passed := r.Header.Values("X-Antirobot-Passed"); {
		case r.URL.Path == "/always":
			w.Header().Set("X-Antirobot-Require", "dynamic")
			w.WriteHeader(403)
			fmt.Fprintf(w, "never, told %q", passed)
		case r.URL.Path == "/checkout" && (len(passed) != 1 || !moved.MatchString(passed[0])):
			w.Header().Set("X-Antirobot-Require", "dynamic")
			w.WriteHeader(403)
			fmt.Fprint(w, "not yet")
		case r.URL.Path == "/checkout":
			fmt.Fprintf(w, "bought with %s", body)
		case len(passed) == 1 && told.MatchString(passed[0]):
			fmt.Fprintf(w, "signed up with %s", body)
		default:
			w.Header().Set("X-Antirobot-Require", "digits")
			w.WriteHeader(403)
			fmt.Fprint(w, "not yet")
		}
	}))
	t.Cleanup(service.Close)
	return service.URL, requests
}

// TestServiceAsks: the answer of a service that wants a step is withheld, the visitor is asked, and the request comes again
// with its body and with what was passed: a page, a form, a call of a script, over HTTP/1 and HTTP/2.
func TestServiceAsks(t *testing.T) {
	t.Parallel()
	upstream, requests := asking(t)
	g, secure, plain := http2Gateway(t, upstream, "")
	g.url = "http://" + plain
	f := func(base string, new func() *client) {
		const claimed, why = "digits;at=1795366800;id=0123456789abcdef", "asks everybody"
		page := func(v *client, path string) {
			t.Helper()
			asked := v.get(base+path).must(t, 302, "")
			if s := g.why(asked); s.Required == "" || s.Required != map[string]string{"/signup?a=b": "digits", "/always": "dynamic"}[path] {
				t.Errorf("%s: why says that the service asked for %q", path, s.Required)
			}
			to := asked.Header.Get("Location")
			for range 2 { // a moving picture has two acts
				shown := v.get(to).must(t, 200, why)
				r := v.do("POST", base+"/checkcaptcha", answered(t, shown.body, testAnswer), "Content-Type", "application/x-www-form-urlencoded")
				if to = r.must(t, 303, "").Header.Get("Location"); to == base+path {
					return
				}
			}
			t.Fatalf("right answers lead to %s", to)
		}
		v := new()
		page(v, "/signup?a=b")
		r := v.get(base+"/signup?a=b").must(t, 200, "signed up")
		if len(r.Header.Values("X-Antirobot-Require")) > 0 {
			t.Errorf("the visitor is told %v", r.Header)
		}
		v = new()
		page(v, "/always")
		if r := v.get(base+"/always").must(t, 403, "never, told"); len(r.Header.Values("X-Antirobot-Require")) > 0 || !strings.Contains(r.body, "dynamic") {
			t.Errorf("%v\n%s", r.Header, r.body)
		}

		v, before := new(), requests.Load()
		urlencoded := []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", base}
		kept := v.do("POST", base+"/signup", "name=Anna", append(urlencoded, "X-Antirobot-Passed", claimed)...).must(t, 200, "is kept")
		if !strings.Contains(kept.body, why) {
			t.Errorf("the page of a form does not say why:\n%s", kept.body)
		}
		again := answered(t, v.do("POST", base+"/checkcaptcha", answered(t, kept.body, "000000"), urlencoded...).must(t, 200, `name="rep"`).body, testAnswer)
		to := v.do("POST", base+"/checkcaptcha", again, urlencoded...).must(t, 307, "").Header.Get("Location")
		v.do("POST", to, again, urlencoded...).must(t, 200, "signed up with name=Anna")
		if n := requests.Load() - before; n != 2 {
			t.Errorf("the service saw the form %d times", n)
		}

		v, before = new(), requests.Load()
		shown := v.do("POST", base+"/checkout", "name=Anna", urlencoded...).must(t, 200, "data-moving")
		next := v.do("POST", base+"/checkcaptcha", followed(t, shown.body, testAnswer), urlencoded...).must(t, 200, "data-moving")
		again = followed(t, next.body, testAnswer)
		to = v.do("POST", base+"/checkcaptcha", again, urlencoded...).must(t, 307, "").Header.Get("Location")
		v.do("POST", to, again, urlencoded...).must(t, 200, "bought with name=Anna")
		if n := requests.Load() - before; n != 2 || to != base+"/checkout" {
			t.Errorf("the service saw the form %d times, at %s", n, to)
		}

		v = new()
		v.header.Set("Accept", "application/json")
		call := func() *response {
			return v.do("POST", base+"/signup", `{"name":"Anna"}`, "Content-Type", "application/json", "Origin", base)
		}
		var c struct {
			Captcha struct{ Key string }
			Reason  string
		}
		if err := json.Unmarshal([]byte(call().must(t, 200, `"type":"captcha"`).body), &c); err != nil || c.Reason != "service" {
			t.Fatalf("%+v, %v", c, err)
		}
		v.do("POST", base+"/checkcaptcha", url.Values{"key": {c.Captcha.Key}, "rep": {testAnswer}}.Encode(), urlencoded...).must(t, 200, "success")
		call().must(t, 200, `signed up with {"name":"Anna"}`)
	}
	f("http://"+plain, func() *client { return visitor(t) })
	f("https://"+secure, func() *client {
		v := visitor(t)
		v.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
		t.Cleanup(v.CloseIdleConnections)
		return v
	})
	for result, want := range map[string]float64{"asked": 10, "passed": 2, "not-asked": 0, "not-understood": 0} {
		if n := g.metric("antirobot_service_requires_total", `result="`+result+`"`); n != want {
			t.Errorf("%v times %s, wanted %v", n, result, want)
		}
	}
}

// TestServiceAsksInVain: who can't be asked gets the service's own answer, and so does everybody where it may not ask.
func TestServiceAsksInVain(t *testing.T) {
	t.Parallel()
	upstream, _ := asking(t)
	g := start(t, "serve", "--config", configFile(t, `
defaults: {upstream: {urls: [%q]}}
services:
  - name: shop
    paths:
      - {prefix: /observed, verdict: {mode: observe}}
      - {prefix: /silent, captcha: {require: false}}
`, upstream), "--captcha-test-answer", testAnswer)
	v := visitor(t)
	v.get(g.url+"/observed").must(t, 403, "not yet")
	v.get(g.url+"/silent").must(t, 403, "not yet")
	v.get(g.url+"/picture.png", "Sec-Fetch-Dest", "image", "Accept", "image/*").must(t, 403, "not yet")
	v.get(g.url+"/signup").must(t, 302, "")
	big := v.do("POST", g.url+"/signup", "name="+strings.Repeat("a", 70<<10), "Content-Type", "application/x-www-form-urlencoded")
	big.must(t, 200, "larger than 64 KB")
}
