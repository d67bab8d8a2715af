package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The tests of the files clients_*_test.go run programs that do legitimate work against a service behind a gateway.
// At the gateway's defaults the programs finish their work. When the gateway stops them, they report an error, and the
// service has seen nothing of them.

// toolTime is how long one run of a program may take.
const toolTime = 2 * time.Minute

// tool is a program that works with a service.
type tool struct {
	service http.Handler
	// work runs the program against the service at url in an empty directory. It returns the program's output and the
	// error that the program reports. The rounds are numbered from 1, and each has something to do.
	work func(t *testing.T, url, dir string, round int) (said string, err error)
	// done checks that the service has all of the first round. got are the requests of that round.
	done func(t *testing.T, got []string)
	// people read pages of the service, too: what programs read where people read pages has limits at defaults.
	people bool
}

// saysStopped finds the error in the output of a tool that always exits with 0.
var saysStopped = regexp.MustCompile(`\b(403|429)\b|Forbidden|Too Many Requests`)

// watched is a service that records its requests.
type watched struct {
	*httptest.Server
	mu  sync.Mutex
	got []string // method and path
}

func watchService(t *testing.T, h http.Handler) *watched {
	t.Helper()
	w := &watched{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.got = append(w.got, r.Method+" "+r.URL.Path)
		w.mu.Unlock()
		h.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

// take returns the requests since the last call.
func (w *watched) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.got
	w.got = nil
	return got
}

// count returns how many requests begin with a text.
func count(got []string, begin string) (n int) {
	for _, g := range got {
		if strings.HasPrefix(g, begin) {
			n++
		}
	}
	return n
}

// guarded runs a gateway with its defaults, except that it judges clients of this machine like all others and that an
// attack holds from its first moment.
func guarded(t *testing.T, upstream string) *gateway {
	t.Helper()
	return configured(t, `
processor: {exempt: []}
verdict: {attack: {ease: 0s}}
defaults: {upstream: {urls: [%q]}}
`, upstream)
}

// stopping finds the metrics of stopped requests.
var stopping = regexp.MustCompile(`^antirobot_requests_total\{.*verdict="(robot|blocked)".* [1-9]`)

// stoppedNone fails the test if the gateway has stopped a request or banned a client.
func (g *gateway) stoppedNone(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(string(g.api("GET", "/metrics", nil))) {
		if stopping.MatchString(line) {
			t.Errorf("stopped: %s", line)
		}
	}
	if b := g.api("GET", "/api/bans", nil); bytes.Contains(b, []byte(`"subject"`)) {
		t.Errorf("banned: %s", b)
	}
}

// witness stands between a program and the gateway and checks each answer with faultsOf. The function that it returns
// reports the faults and returns the number of answers.
func witness(t *testing.T, gateway string, status int) (address string, report func() int) {
	t.Helper()
	to, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	n, faults := 0, map[string]int{}
	s := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ModifyResponse: func(r *http.Response) error {
			mu.Lock()
			defer mu.Unlock()
			n++
			for _, fault := range faultsOf(r, status) {
				faults[r.Request.Method+": "+fault]++
			}
			return nil
		},
	})
	t.Cleanup(s.Close)
	return s.URL, func() int {
		mu.Lock()
		defer mu.Unlock()
		for fault, times := range faults {
			t.Errorf("%d times %s", times, fault)
		}
		return n
	}
}

// forPrograms are the media types that a stopped program may get.
var forPrograms = []string{"text/plain", "application/problem+json", "application/xml", "text/xml"}

// faultsOf says why an answer is none for a stopped program.
func faultsOf(r *http.Response, status int) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if r.StatusCode != status {
		wrong("status %d, wanted %d", r.StatusCode, status)
	}
	if r.StatusCode == http.StatusTooManyRequests {
		after := r.Header.Get("Retry-After")
		if seconds, err := strconv.Atoi(after); err != nil || seconds < 1 || seconds > 3600 {
			wrong("429 with Retry-After %q, wanted 1 to 3600", after)
		}
	}
	for _, name := range []string{"X-Antirobot-Verdict", "X-Request-Id"} {
		if r.Header.Get(name) == "" {
			wrong("no %s", name)
		}
	}
	if r.Header.Get("Cache-Control") != "no-store" {
		wrong("Cache-Control %q", r.Header.Get("Cache-Control"))
	}
	if r.Header.Get("Location") != "" {
		wrong("a Location")
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); !slices.Contains(forPrograms, kind) {
		wrong("Content-Type %q", r.Header.Get("Content-Type"))
	}
	return faults
}

// try runs the program at the gateway's defaults, banned by hand, and under attack.
func (p *tool) try(t *testing.T) {
	t.Helper()
	s := watchService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/pages/") {
			p.service.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><title>A page</title><p>text")
	}))
	g := guarded(t, s.URL)
	if p.people {
		peopleReadPages(t, g.url)
	}
	s.take()
	round := 0
	run := func(t *testing.T, url string) (string, error) {
		t.Helper()
		round++
		began := time.Now()
		said, err := p.work(t, url, t.TempDir(), round)
		t.Logf("it took %v", time.Since(began).Round(10*time.Millisecond))
		return said, err
	}
	t.Run("finishes its work", func(t *testing.T) {
		said, err := run(t, g.url)
		if err != nil {
			t.Errorf("%v\n%s", err, tail(said, 1000))
		}
		g.stoppedNone(t)
		p.done(t, s.take())
	})
	stopped := func(t *testing.T, status int) {
		t.Helper()
		at, answers := witness(t, g.url, status)
		s.take()
		said, err := run(t, at)
		if err == nil && !saysStopped.MatchString(said) {
			t.Errorf("it reports no error:\n%s", tail(said, 1000))
		}
		if got := s.take(); len(got) > 0 {
			t.Errorf("the service got %d requests: %.5q", len(got), got)
		}
		if answers() == 0 {
			t.Errorf("it sent no request:\n%s", tail(said, 1000))
		}
	}
	t.Run("banned by hand", func(t *testing.T) {
		g.unban("127.0.0.1")
		g.ban("ip:127.0.0.1", "10m")
		stopped(t, http.StatusForbidden)
	})
	t.Run("under attack", func(t *testing.T) {
		g.unban("127.0.0.1")
		g.api("POST", "/api/attack", map[string]string{"for": "10m"})
		stopped(t, http.StatusTooManyRequests)
	})
}

// unban ends a ban of an address, if there is one.
func (g *gateway) unban(addr string) {
	g.t.Helper()
	g.tryAPI("DELETE", "/api/bans?subject=ip:"+addr, nil)
}

// runTool runs a program in dir, which is its home as well, and returns its output.
func runTool(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	return feedTool(t, dir, env, "", name, args...)
}

// feedTool is runTool with standard input.
func feedTool(t *testing.T, dir string, env []string, in, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), toolTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "http_proxy=", "https_proxy=", "no_proxy=*")
	for _, home := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"} {
		cmd.Env = append(cmd.Env, home+"="+dir)
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
		t.Errorf("%s does not end", name)
	}
	return string(out), err
}

// peopleReadPages has browsers of many networks read pages.
func peopleReadPages(t *testing.T, url string) {
	t.Helper()
	at, f := overTCP(t, "HTTP/1.1", url, false), &fronts{t: t}
	for n := range 20 {
		for page := range 3 {
			r := newRequest(t, "GET", fmt.Sprintf("/pages/%d", page), "", navigations["Firefox"]...)
			got, err := f.send(&at, fmt.Sprintf("127.0.%d.1", 150+n), r)
			if err != nil {
				t.Fatal(err)
			}
			got.must(t, 200, "<!doctype html>")
		}
	}
}
