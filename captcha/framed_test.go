package captcha

import (
	"strings"
	"testing"

	"antirobot/identity"
)

// TestFrames: the check is shown in frames of the service's own host and of cors_origins; in any other frame a page
// opens it in a tab of its own.
func TestFrames(t *testing.T) {
	open := newEnv(t, nil)
	listed := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
		s.CrossSite, s.CORSOrigins = true, []string{"https://shop.example.org", "https://*.partner.net"}
	})
	in := func(dest, site, referer string, more ...string) []opt {
		o := []opt{header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", dest), header("Sec-Fetch-Site", site)}
		if referer != "" {
			o = append(o, header("Referer", referer))
		}
		for i := 0; i+1 < len(more); i += 2 {
			o = append(o, header(more[i], more[i+1]))
		}
		return o
	}
	f := func(e *env, outside bool, o []opt) {
		t.Helper()
		a := e.c.Redirect(e.request("GET", "https://example.com/a?b=c", o...))
		form := e.c.ChallengeForm(e.request("POST", "https://example.com/send",
			append(o, body("application/x-www-form-urlencoded", "x=1"))...))
		if !outside {
			if a.Status != 302 || form.Status != 200 {
				t.Errorf("a frame that may show the check gets %d, a form %d", a.Status, form.Status)
			}
			return
		}
		for _, a := range []Response{a, form} {
			csp := a.Get("Content-Security-Policy")
			if a.Status != 403 || a.Get("X-Frame-Options") != "" || !strings.Contains(csp, "frame-ancestors *") ||
				strings.Contains(csp, "script-src") {
				t.Errorf("%d %v", a.Status, a.Header)
			}
			if !strings.Contains(
				string(a.Body),
				`href="https://example.com/showcaptcha?cc=1&amp;retpath=https%3A%2F%2Fexample.com%2F`,
			) ||
				!strings.Contains(string(a.Body), `target="_blank"`) {
				t.Errorf("no way out of the frame: %s", a.Body)
			}
		}
	}
	f(open, false, in("document", "cross-site", "https://other.test/"))
	f(open, false, in("iframe", "same-origin", "https://example.com/"))
	f(open, true, in("iframe", "cross-site", "https://other.test/"))
	f(open, true, in("frame", "same-site", "https://www.example.com/"))
	f(open, true, in("iframe", "cross-site", ""))
	f(open, true, in("iframe", "same-origin", "https://example.com/", "Sec-Fetch-Storage-Access", "none"))
	f(listed, false, in("iframe", "cross-site", "https://shop.example.org/"))
	f(listed, false, in("iframe", "cross-site", "https://www.partner.net/"))
	f(listed, false, in("iframe", "same-origin", "https://example.com/", "Sec-Fetch-Storage-Access", "none"))
	f(listed, true, in("iframe", "cross-site", "https://shop.example.org.evil.test/"))
	f(listed, true, in("iframe", "cross-site", "https://evil.test/https://shop.example.org/"))

	for e, want := range map[*env]string{open: "frame-ancestors 'self';", listed: "frame-ancestors 'self' https://shop.example.org https://*.partner.net;"} {
		a := e.c.Page(e.request("GET", "https://example.com/showcaptcha", header("Sec-Fetch-Dest", "iframe")))
		if csp := a.Get("Content-Security-Policy") + ";"; !strings.Contains(csp, want) {
			t.Errorf("%s", csp)
		}
		if (a.Get("X-Frame-Options") == "SAMEORIGIN") != (e == open) {
			t.Errorf("X-Frame-Options: %s", a.Get("X-Frame-Options"))
		}
	}
	redirect := listed.c.Redirect(listed.request("GET", "https://example.com/"))
	if probe := cookies(&redirect)[probeCookie]; !strings.Contains(probe, "SameSite=None; Partitioned") {
		t.Errorf("the probe cookie does not come back from a frame: %s", probe)
	}
}
