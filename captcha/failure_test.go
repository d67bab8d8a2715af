package captcha

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"
)

// TestFailuresAreReadable: each error that the gateway answers by itself is a page in the visitor's language, JSON or
// XML, says when to come again where that helps, and is never taken for a challenge. What may have been carried out is
// not to be repeated.
func TestFailuresAreReadable(t *testing.T) {
	e := newEnv(t, nil)
	for status, f := range failures {
		for _, method := range []string{"GET", "POST"} {
			q := func() *Request {
				return e.request(method, "https://example.com/a?b=c", header("Accept-Language", "ru"),
					header("Origin", "https://example.com"))
			}
			again := ""
			if f.wait > 0 && (method == "GET" || status == 503 || status == 408) {
				again = fmt.Sprint(seconds(f.wait))
			}
			page, script, xmlUser, part := e.c.Failed(q(), status, ReadsPage), e.c.Failed(
				q(), status, ReadsJSON,
			), e.c.Failed(q(), status, ReadsXML), e.c.Failed(q(), status, ReadsNothing)
			for what, a := range map[string]Response{"page": page, "script": script, "XML": xmlUser, "part": part} {
				if a.Status != status || a.Get("Retry-After") != again || a.Get("X-Antirobot-Verdict") != "" ||
					a.Get("Cache-Control") != "no-store" {
					t.Errorf("%s %d, %s: %d %v, want Retry-After %q", method, status, what, a.Status, a.Header, again)
				}
			}
			if text := string(page.Body); page.Get("Content-Language") != "ru" || !strings.Contains(text, "<h1>") ||
				!strings.Contains(text, "req-") ||
				strings.Contains(text, "https://example.com/a?b=c") != (f.wait > 0 && method == "GET") {
				t.Errorf("%s %d: the page is in %q\n%s", method, status, page.Get("Content-Language"), text)
			}
			var said struct {
				Type       string
				RequestID  string `json:"request-id"`
				RetryAfter int    `json:"retry-after"`
			}
			if err := json.Unmarshal(script.Body, &said); err != nil || said.Type != f.page.String() ||
				said.RequestID == "" || (said.RetryAfter > 0) != (again != "") ||
				script.Get("Access-Control-Allow-Origin") != "https://example.com" {
				t.Errorf("%s %d: %v %+v\n%s", method, status, err, said, script.Body)
			}
			if err := xml.Unmarshal(xmlUser.Body, new(struct{})); err != nil || !strings.Contains(
				string(xmlUser.Body), fmt.Sprintf(`<error code="%d">%s<`, status, failureNames[f.page]),
			) || failureNames[f.page] == "" {
				t.Errorf("%s %d: %v\n%s", method, status, err, xmlUser.Body)
			}
			if len(part.Body) > 0 {
				t.Errorf("%s %d: a part has a body %s", method, status, part.Body)
			}
		}
	}
}
