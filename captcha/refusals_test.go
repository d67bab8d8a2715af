package captcha

import (
	"encoding/xml"
	"net/url"
	"strings"
	"testing"
	"time"

	"antirobot/captcha/location"
	"antirobot/identity"
)

// TestXMLIsRefusedInXML: a blocked client, a user with too many attempts, and whom the request rules throttle or
// quarantine get XML, in which nothing looks like a challenge to clients.
func TestXMLIsRefusedInXML(t *testing.T) {
	e := newEnv(t, nil, func(b *bounds) { b.checks = rate{6, 1} })
	try := func() Response {
		return e.c.XCheck(e.request("GET", "https://example.com/xcheckcaptcha?key=x&rep=1", partner("p")))
	}
	try()
	limited := try()
	if limited.Status != 429 || limited.Get("Retry-After") != "10" ||
		!strings.Contains(string(limited.Body), "try again in 10 s") {
		t.Errorf("too many tries: %d %q\n%s", limited.Status, limited.Get("Retry-After"), limited.Body)
	}
	blocked := e.c.Blocked(e.request("GET", "https://example.com/xmlsearch"), ReadsXML)
	if blocked.Status != 403 || blocked.Get("X-Antirobot-Verdict") != "blocked" {
		t.Errorf("blocked: %d", blocked.Status)
	}
	throttled := e.c.Throttled(e.request("GET", "https://example.com/xmlsearch"), 1500*time.Millisecond, ReadsXML)
	if throttled.Status != 429 || throttled.Get("Retry-After") != "2" ||
		!strings.Contains(string(throttled.Body), "try again in 2 s") {
		t.Errorf("throttled: %d %q\n%s", throttled.Status, throttled.Get("Retry-After"), throttled.Body)
	}
	quarantined := e.c.QuarantinedXML(e.request("GET", "https://example.com/xmlsearch"))
	busy := e.c.Failed(e.request("GET", "https://example.com/xmlsearch"), 503, ReadsXML)
	if busy.Status != 503 || busy.Get("Retry-After") != "2" || busy.Get("X-Antirobot-Verdict") != "" {
		t.Errorf("busy: %d %v", busy.Status, busy.Header)
	}
	for what, a := range map[string]Response{"busy": busy, "limited": limited, "blocked": blocked, "throttled": throttled, "quarantined": quarantined} {
		if err := xml.Unmarshal(a.Body, new(struct{})); err != nil || a.Get("Content-Type") != typeXML {
			t.Errorf("%s: %v\n%s", what, err, a.Body)
		}
		for _, mark := range []string{`<error code="100">`, "<captcha-status>", "<captcha-key>"} {
			if strings.Contains(string(a.Body), mark) {
				t.Errorf("%s holds %s", what, mark)
			}
		}
		if !strings.Contains(string(a.Body), "<request-id>req-") {
			t.Errorf("%s: no request id\n%s", what, a.Body)
		}
	}
}

// TestRefusedRetpathIsTold: a front end is told that its X-Retpath-Y is not followed.
func TestRefusedRetpathIsTold(t *testing.T) {
	e := newEnv(t, nil)
	for retpath, want := range map[string]string{
		"https://example.com/there":             "",
		"https://evil.example/":                 "refused",
		"javascript:alert(1)":                   "refused",
		strings.Repeat("x", location.Longest):   "refused",
		strings.Repeat("x", location.Longest+1): "refused",
		"":                                      "",
	} {
		opts := []opt{header("Origin", "https://example.com")}
		if retpath != "" {
			opts = append(opts, header("X-Retpath-Y", retpath))
		}
		page := e.c.Redirect(e.request("GET", "https://example.com/here", opts...))
		script := e.c.ChallengeJSON(e.request("GET", "https://example.com/here", opts...))
		if link := e.c.Link(e.request("GET", "https://example.com/here", opts...)); link.Status != 401 ||
			link.Get("X-Antirobot-Retpath") != want {
			t.Errorf("%.30q: link %d %q, want %q", retpath, link.Status, link.Get("X-Antirobot-Retpath"), want)
		}
		if page.Get("X-Antirobot-Retpath") != want || script.Get("X-Antirobot-Retpath") != want {
			t.Errorf("%.30q: page %q, script %q, want %q", retpath, page.Get("X-Antirobot-Retpath"),
				script.Get("X-Antirobot-Retpath"), want)
		}
		if exposed := strings.Contains(script.Get("Access-Control-Expose-Headers"), "X-Antirobot-Retpath"); exposed != (want != "") {
			t.Errorf("%.30q: readable by the script: %t", retpath, exposed)
		}
	}
}

// TestHeadsForBalancersAreSmall: nginx takes an answer whose head does not fit into a page of memory, 4 KiB, for a
// gateway that is down, and may let the visitor through. No request makes the head of an answer as large, and what
// fits comes back whole.
func TestHeadsForBalancersAreSmall(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
		s.RetpathHosts = []string{"*.example.com"}
	})
	const site = "https://example.com"
	for want, from := range map[string]string{
		site + "/search?q=" + strings.Repeat("x", 1500): "/search?q=" + strings.Repeat("x", 1500),
		site + "/long":                      "/long?q=" + strings.Repeat("x", 7000),
		site + "/escaped":                   "/escaped?q=" + strings.Repeat("%22", 500),
		site + "/bytes":                     "/bytes?q=" + strings.Repeat("\xff", 1000),
		site + "/":                          "/" + strings.Repeat("x", 7000) + "?q=1",
		"https://www.example.com/elsewhere": "X-Retpath-Y: https://www.example.com/elsewhere?q=" + strings.Repeat("%22", 1000),
	} {
		target, retpath, named := strings.Cut(from, "X-Retpath-Y: ")
		opts := []opt{func(q *Request) { q.Tight = true }}
		if named {
			target, opts = "/here", append(opts, header("X-Retpath-Y", retpath))
		}
		for what, a := range map[string]Response{
			"redirect": e.c.Redirect(e.request("GET", site+target, opts...)), "link": e.c.Link(e.request("GET", site+target, opts...)),
		} {
			size := 0
			for _, h := range a.Header {
				size += len(h.Name) + len(": \r\n") + len(h.Value)
			}
			to, err := url.Parse(a.Get("Location"))
			if err != nil {
				t.Fatal(err)
			}
			if got := to.Query().Get("retpath"); got != want || size > 3<<10 {
				t.Errorf("%s: %.60s: %d bytes, back to %.80s", what, from, size, got)
			}
		}
	}
	whole := e.c.Redirect(e.request("GET", site+"/long?q="+strings.Repeat("x", 7000)))
	if to := whole.Get("Location"); len(to) < 7000 {
		t.Errorf("a visitor without a balancer is led back to %s", to)
	}
}

// TestAnswersLeadToShortAddresses: what a visitor writes into the page's own fields makes no head that is too large
// for a balancer, which would take the gateway for one that is down.
func TestAnswersLeadToShortAddresses(t *testing.T) {
	e := newEnv(t, nil)
	long := strings.Repeat("!", 40<<10)
	for _, name := range []string{"lang", fieldSwitch, fieldStep} {
		for _, more := range [][]string{{fieldFresh, "1"}, {"key", "none", "rep", "1"}} {
			a := e.check(form(append(more, name, long)...))
			size := 0
			for _, h := range a.Header {
				size += len(h.Name) + len(": \r\n") + len(h.Value)
			}
			if a.Status != 303 || size > 3<<10 {
				t.Errorf("%s with %s: %d, a head of %d bytes", name, more[0], a.Status, size)
			}
		}
	}
	a := e.check(form(fieldSwitch, "DE", fieldStep, "digits"))
	if to := a.Get("Location"); !strings.Contains(to, "&lang=de") || !strings.Contains(to, "&step=digits") {
		t.Errorf("a choice leads to %s", to)
	}
}
