package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// configured runs the gateway with a configuration file of the given text. Challenges ask for testAnswer.
func configured(t *testing.T, format string, args ...any) *gateway {
	t.Helper()
	return start(t, "serve", "--config", configFile(t, format, args...), "--captcha-test-answer", testAnswer)
}

func configFile(t *testing.T, format string, args ...any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	write(t, file, fmt.Sprintf(format, args...))
	return file
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wire sends text unchanged over its own connection, and returns the answer with its body read.
func (g *gateway) wire(text string) *response {
	g.t.Helper()
	if head, rest, ok := strings.Cut(text, "\r\n"); ok && !strings.Contains(text, "User-Agent:") { // a browser's, unless it says what it is
		text = head + "\r\n" + browserLines + rest
	}
	r, err := http.ReadResponse(g.dial(text), &http.Request{Method: strings.Fields(text)[0], URL: &url.URL{Path: "/(raw)"}})
	if err != nil {
		g.t.Fatalf("%q: %v", text, err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		g.t.Fatalf("%q: %v", text, err)
	}
	return &response{r, string(b)}
}

// dial opens a connection that is closed at the end of the test, writes text, and returns a reader of what comes back.
func (g *gateway) dial(text string) *bufio.Reader {
	g.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		g.t.Fatal(err)
	}
	return bufio.NewReader(c)
}

// from makes a visitor whose address a trusted balancer announces.
func from(t *testing.T, addr string) *client {
	v := visitor(t)
	v.header.Set("X-Forwarded-For", addr)
	return v
}

// speaks makes c a browser of another language than the other visitors. For a minute after an answer the gateway takes who
// brings no cookies, and is alike in all else, for the one that answered.
func (c *client) speaks(lang string) *client {
	c.header.Set("Accept-Language", lang)
	return c
}

// mirror is a service that answers each request with its head as JSON, so that a test sees exactly what a service sees.
func mirror(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		r.Header.Set("Host", r.Host)
		_ = json.NewEncoder(w).Encode(map[string]any{"header": r.Header, "uri": r.RequestURI})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func (r *response) mirrored(t *testing.T) (header http.Header, uri string) {
	t.Helper()
	var m struct {
		Header http.Header
		URI    string
	}
	if err := json.Unmarshal([]byte(r.body), &m); err != nil || r.StatusCode != 200 {
		t.Fatalf("not served: %d %v\n%s", r.StatusCode, err, r.body)
	}
	return m.Header, m.URI
}

// story is the part of a decision in the API that the tests read.
type story struct {
	Verdict, Cause, Mode, Service, Subject, Path, Excused string
	Rule, Required                                        string
	Rules, Message                                        storyRules
	Considered                                            []string
	Refused                                               []struct{ Kind, Reason string }
	Entry                                                 struct{ List, Text, Reason string }
	Ban                                                   struct{ Subject, Source, Reason, Service string }
	Pass                                                  *struct {
		ID         string
		Cost, Left int
	}
}

// storyRules is the part about rules in a decision that the tests read.
type storyRules struct {
	Opinions []string

	Route, Action, Decision, Rule, Error, Trace string
	Line                                        int
	Score                                       float64
	Tags                                        []string
	Fired                                       []struct {
		Line int
		Rule string
	}
}

// why asks for the decision about a request.
func (g *gateway) why(r *response) (s story) {
	g.t.Helper()
	return g.whyID(r.Header.Get("X-Request-Id"))
}

func (g *gateway) whyID(id string) (s story) {
	g.t.Helper()
	if err := json.Unmarshal(g.api("GET", "/api/decisions/"+id, nil), &s); err != nil {
		g.t.Fatal(err)
	}
	return s
}

func (g *gateway) list(which, entry, ttl string) {
	g.t.Helper()
	g.api("POST", "/api/lists/"+which, map[string]string{"entry": entry, "ttl": ttl, "reason": "test"})
}

// earn gives v a pass: v is banned until it has solved a captcha, and banned again afterwards.
func (g *gateway) earn(v *client, path string) {
	g.t.Helper()
	if r := g.solve(v, path); r.StatusCode != http.StatusSeeOther {
		g.t.Fatalf("solve: %d %s", r.StatusCode, r.body)
	}
}

// setsCookie reports whether the answer sets or clears the cookie.
func (r *response) setsCookie(name string) bool {
	return slices.ContainsFunc(r.Header.Values("Set-Cookie"), func(c string) bool { return strings.HasPrefix(c, name+"=") })
}

// TestBusyService: a service whose connections are all in use is not down: visitors get 503, and when to try again, in
// what they can read.
func TestBusyService(t *testing.T) {
	t.Parallel()
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		held <- struct{}{}
		<-hold
		fmt.Fprint(w, "at last")
	}))
	t.Cleanup(s.Close)
	g := configured(t, "defaults:\n  upstream: {urls: [%q], max_conns: 1, max_wait: 50ms}\n", s.URL)
	first := make(chan *response, 1)
	slow := visitor(t)
	go func() { first <- slow.get(g.url + "/slow") }()
	<-held
	for _, accept := range []string{"text/html", "application/json"} {
		r := visitor(t).get(g.url+"/", "Accept", accept)
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "2" {
			t.Errorf("%s: %d, Retry-After %q", accept, r.StatusCode, r.Header.Get("Retry-After"))
		}
		if want := map[string]string{"text/html": "busy", "application/json": `{"type":"unavailable","request-id":"`}[accept]; !strings.Contains(r.body, want) || r.Header.Get("X-Antirobot-Verdict") != "" {
			t.Errorf("%s: %v\n%s", accept, r.Header, tail(r.body, 500))
		}
	}
	close(hold)
	(<-first).must(t, 200, "at last")
}
