package blackbox

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"antirobot/servertest"
)

// Environment:
//
//	ANTIROBOT_BIN     the binary under test; default: built from the module
//	BLACKBOX_ONLY     regular expression; only cases whose category/name matches
//	BLACKBOX_STRICT   should cases fail too
//	BLACKBOX_REPORT   a file that gets a line for each case: category/name, status of the first answer, passed or failed
const (
	workers     = 8
	slowWorkers = 10 // they mostly wait
)

// env is one proxy in front of one service. Cases on one env run one after another.
type env struct {
	addr string
	svc  *service
	host string // over HTTP/2: by which the service is known
	web  *web   // and the service
}

type result struct {
	c     *Case
	fails []string
	first int // status of the first answer
}

// suite runs all cases against what l starts. tries is how often a case must fail to count as failed: once, except for the
// reference, where only the suite is judged. known are those that are known to fail.
func suite(t *testing.T, l launcher, tries int, known map[string]bool) []result {
	t.Helper()
	only, err := regexp.Compile(os.Getenv("BLACKBOX_ONLY"))
	if err != nil {
		t.Fatal(err)
	}
	cases := allCases()
	quick, slow := make(chan *Case, len(cases)), make(chan *Case, len(cases))
	var chosen []*Case
	for i := range cases {
		c := &cases[i]
		if !only.MatchString(c.ID()) {
			continue
		}
		chosen = append(chosen, c)
		if c.Slow {
			slow <- c
		} else {
			quick <- c
		}
	}
	close(quick)
	close(slow)

	var mu sync.Mutex
	ran := map[*Case]result{}
	var wg sync.WaitGroup
	start := func(n int, queue chan *Case) {
		for range min(n, len(queue)) {
			svc, err := newService()
			if err != nil {
				t.Fatal(err)
			}
			addr, stop := l(t, svc.url())
			e := &env{addr: addr, svc: svc}
			wg.Go(func() {
				defer svc.stop()
				defer stop()
				for c := range queue {
					known := known[c.ID()]
					fails, first := e.run(c, known)
					for again := 1; again < tries && len(fails) > 0 && !known; again++ {
						fails, first = e.run(c, known)
					}
					mu.Lock()
					ran[c] = result{c, fails, first}
					mu.Unlock()
				}
			})
		}
	}
	start(slowWorkers, slow)
	start(workers, quick)
	wg.Wait()
	var out []result
	for _, c := range chosen {
		out = append(out, ran[c])
	}
	return out
}

// report makes each case a subtest; known are the expected failures, by ID.
func report(t *testing.T, results []result, known map[string]bool) {
	t.Helper()
	writeReport(t, results)
	must, should, mustFailed, shouldFailed := 0, 0, 0, 0
	strict := os.Getenv("BLACKBOX_STRICT") != ""
	for _, r := range results {
		failed := len(r.fails) > 0
		if r.c.Should {
			should++
			if failed {
				shouldFailed++
			}
		} else {
			must++
			if failed {
				mustFailed++
			}
		}
		t.Run(r.c.ID(), func(t *testing.T) {
			text := strings.Join(r.fails, "\n")
			switch {
			case failed && known[r.c.ID()]:
				t.Logf("known: %s", text)
			case failed && r.c.Should && !strict:
				t.Logf("should: %s", text)
			case failed:
				t.Error(text)
			case known[r.c.ID()]:
				t.Logf("passes, though it is listed as a known failure")
			}
		})
		if failed && r.c.Should && !strict {
			t.Logf("SHOULD %s: %s", r.c.ID(), clip(strings.Join(r.fails, "; ")))
		}
	}
	t.Logf("%d of %d must cases failed, %d of %d should cases", mustFailed, must, shouldFailed, should)
}

// writeReport helps to compare two proxies by hand.
func writeReport(t *testing.T, results []result) {
	t.Helper()
	name := os.Getenv("BLACKBOX_REPORT")
	if name == "" {
		return
	}
	var b strings.Builder
	for _, r := range results {
		fmt.Fprintf(&b, "%s\t%d\t%v\n", r.c.ID(), r.first, len(r.fails) == 0)
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Error(err)
	}
}

// TestInProcess runs the suite against the transport, without the rest of the gateway.
func TestInProcess(t *testing.T) {
	t.Parallel() // with the other targets: all of them mostly wait
	report(t, suite(t, inProcess, 1, nil), nil)
}

// refusedByTheGateway are cases that the transport passes on and the gateway refuses, because services read them in
// different ways: e2e/TestPitfall08EscapedNULIsRefused holds it to that.
var refusedByTheGateway = map[string]bool{"path//a%00b": true}

// TestGateway runs the suite against the binary.
func TestGateway(t *testing.T) {
	t.Parallel()
	report(t, suite(t, gateway(binary(t)), 1, refusedByTheGateway), refusedByTheGateway)
}

// binary is the product's.
func binary(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("ANTIROBOT_BIN")
	if bin == "" {
		root, err := filepath.Abs("../..")
		if err != nil {
			t.Fatal(err)
		}
		bin = filepath.Join(t.TempDir(), "antirobot")
		build := exec.Command("go", "build", "-o", bin, ".")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	return bin
}

// TestReference runs the suite against nginx: an unlisted failure there is an error of the suite.
func TestReference(t *testing.T) {
	t.Parallel()
	report(t, suite(t, nginx(servertest.Need(t, "nginx")), 3, nginxFails), nginxFails)
}

// TestCases checks the consistency of the suite itself.
func TestCases(t *testing.T) {
	seen := map[string]bool{}
	perCat := map[string]int{}
	must := 0
	for _, c := range slices.Concat(allCases(), http2Cases(), rawCases()) {
		if seen[c.ID()] {
			t.Errorf("two cases are called %s", c.ID())
		}
		seen[c.ID()] = true
		perCat[c.Cat]++
		if !c.Should {
			must++
		}
		if (c.Run == nil) == (c.Check == nil) {
			t.Errorf("%s needs Run or Check", c.ID())
		}
	}
	for _, id := range slices.Concat(slices.Collect(maps.Keys(nginxFails)), slices.Collect(maps.Keys(nginxFailsHTTP2)), slices.Collect(maps.Keys(nginxFailsRaw))) {
		if !seen[id] {
			t.Errorf("no case is called %s", id)
		}
	}
	var cats []string
	for c, n := range perCat {
		cats = append(cats, fmt.Sprintf("%s %d", c, n))
	}
	sort.Strings(cats)
	t.Logf("%d cases, %d must: %s", len(seen), must, strings.Join(cats, ", "))
	if must < 300 || !slices.IsSorted(cats) {
		t.Errorf("only %d must cases", must)
	}
}

// TestServiceAway sends a request before the service is up, then starts the service.
func TestServiceAway(t *testing.T) {
	addr := ports.Addr(t)
	at, stop := inProcess(t, "http://"+addr)
	defer stop()
	ask := func(want int, what string) {
		t.Helper()
		x := &X{Case: &Case{}, env: &env{addr: at}, done: make(chan struct{}), signals: map[string]chan struct{}{}}
		defer func() {
			_ = recover()
			for _, f := range x.fails {
				t.Error(f)
			}
		}()
		c := x.Dial()
		defer c.Close()
		for range 2 { // the connection survives
			c.Send(newRequest("POST", "/a", what))
			if p := c.Get(); p.Status != want {
				x.Errorf("status %d, wanted %d", p.Status, want)
			}
		}
	}
	ask(502, "hello")
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skip("the port was taken meanwhile")
	}
	v := serviceOn(l)
	defer v.stop()
	v.begin(&X{Case: &Case{}, done: make(chan struct{}), signals: map[string]chan struct{}{}})
	ask(200, "hello")
}

// patience is how long anything that must happen may take on a busy machine, and impatience where it is known not to happen.
// settle is how long a case waits to see that something does not happen.
const (
	patience   = 60 * time.Second
	impatience = time.Second
	settle     = 25 * time.Millisecond
)

// Case is one test case for a proxy.
type Case struct {
	Cat, Name string
	Should    bool // quality, not safety
	Slow      bool // takes seconds by its nature; runs beside the others

	// Send is written by the client at once, then Check looks at what came of it. Run, if set, does all itself.
	Send     string
	Services []Script // what the service does with each request, the last one for all that follow; default: ok
	Check    func(x *X, c *Client)
	Run      func(x *X)
}

// ID names a case.
func (c *Case) ID() string { return c.Cat + "/" + c.Name }

// X is a case being run.
type X struct {
	Case  *Case
	env   *env
	known bool          // to fail
	named string        // by its requests, over HTTP/2
	done  chan struct{} // closed at its end

	mu       sync.Mutex
	fails    []string
	reqs     []*Req
	conns    int
	requests int
	clients  []*Client
	streams  []*streams
	signals  map[string]chan struct{}
	first    int // status of the first answer to the client; 0: none
}

type caseEnd struct{}

// within is how long the client waits for what must happen.
func (x *X) within() time.Duration {
	if x.known {
		return impatience
	}
	return patience
}

// Errorf notes a failure.
func (x *X) Errorf(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fails = append(x.fails, fmt.Sprintf(format, args...))
}

// Fatalf notes a failure and ends the case; only for the case's own goroutine.
func (x *X) Fatalf(format string, args ...any) {
	x.Errorf(format, args...)
	panic(caseEnd{})
}

func (x *X) nextConn() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conns++
	return x.conns
}

func (x *X) nextRequest() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.requests++
	return x.requests
}

func (x *X) script(n int) Script {
	s := x.Case.Services
	if len(s) == 0 {
		return ok
	}
	return s[min(n, len(s))-1]
}

func (x *X) note(q *Req) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reqs = append(x.reqs, q)
}

func (x *X) finish(q *Req, body string, trailer Fields, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	q.Body, q.Trailer, q.Complete = body, trailer, err == nil
	if err != nil && q.Err == "" {
		q.Err = err.Error()
	}
}

// Seen is a copy of the requests that the service has seen so far.
func (x *X) Seen() []Req {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make([]Req, len(x.reqs))
	for i, q := range x.reqs {
		out[i] = *q
	}
	return out
}

// Await waits until f holds for the requests seen.
func (x *X) Await(what string, f func([]Req) bool) []Req {
	for end := time.Now().Add(x.within()); ; time.Sleep(time.Millisecond) {
		if r := x.Seen(); f(r) {
			return r
		}
		if time.Now().After(end) {
			x.Fatalf("the service never saw %s; it saw %s", what, describe(x.Seen()))
		}
	}
}

// Signal and Wait order the actions of client and service.
func (x *X) Signal(name string) { close(x.signal(name)) }

// Wait waits for the signal.
func (x *X) Wait(name string) {
	select {
	case <-x.signal(name):
	case <-x.done:
		panic(scriptEnd{})
	case <-time.After(x.within()):
		x.Errorf("never signalled: %s", name)
	}
}

// Signalled reports whether the signal has come within d.
func (x *X) Signalled(name string, d time.Duration) bool {
	select {
	case <-x.signal(name):
		return true
	case <-time.After(d):
		return false
	}
}

func (x *X) signal(name string) chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.signals[name]
	if c == nil {
		c = make(chan struct{})
		x.signals[name] = c
	}
	return c
}

func describe(r []Req) string {
	if len(r) == 0 {
		return "nothing"
	}
	s := ""
	for _, q := range r {
		s += fmt.Sprintf("[%q body %q complete %v %s] ", clip(q.Head), clip(q.Body), q.Complete, q.Err)
	}
	return s
}

// run runs one case to its end; known says that it is known to fail.
func (e *env) run(c *Case, known bool) (fails []string, first int) {
	x := &X{Case: c, env: e, known: known, done: make(chan struct{}), signals: map[string]chan struct{}{}}
	e.svc.begin(x)
	x.guarded(func() {
		if c.Run != nil {
			c.Run(x)
			return
		}
		k := x.Dial()
		k.Send(c.Send)
		c.Check(x, k)
	})
	close(x.done)
	e.svc.end()
	x.mu.Lock()
	clients, streams := x.clients, x.streams
	x.mu.Unlock()
	for _, k := range clients {
		k.Close()
	}
	for _, k := range streams {
		k.Close()
	}
	e.barrier()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.fails, x.first
}

// guarded calls f, which may end early.
func (x *X) guarded(f func()) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(caseEnd); !ok {
				if _, ok := p.(scriptEnd); !ok {
					panic(p)
				}
			}
		}
	}()
	f()
}

// barrier sends one request of the suite's own, so that everything the proxy was still processing for the last case reaches
// the service before the next case begins.
func (e *env) barrier() {
	x := &X{Case: &Case{}, env: e, done: make(chan struct{}), signals: map[string]chan struct{}{}}
	e.svc.begin(x)
	defer e.svc.end()
	defer close(x.done)
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, get("/barrier", "Connection: close")); err == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}

// caseList gathers cases.
type caseList []Case

func (l *caseList) add(cat, name string, run func(x *X), services ...Script) *Case {
	*l = append(*l, Case{Cat: cat, Name: name, Run: run, Services: services})
	return l.last()
}

// should adds a case that a proxy may fail.
func (l *caseList) should(cat, name string, run func(x *X), services ...Script) {
	l.add(cat, name, run, services...).Should = true
}

func (l caseList) last() *Case { return &l[len(l)-1] }

func allCases() []Case {
	var out []Case
	for _, f := range []func() []Case{
		framingCases, lineCases, headerCases, streamingCases, interimCases, upgradeCases, answerCases,
		keepAliveCases, retryCases, pipeliningCases, abortCases, timeoutCases,
	} {
		out = append(out, f()...)
	}
	return out
}

// Check is the expectation of a case.
type Check = func(x *X, c *Client)

// refused expects an error from the proxy itself, a closed connection, and a service that saw nothing. The status must be
// one of codes; default 400.
func refused(codes ...int) Check {
	if len(codes) == 0 {
		codes = []int{400}
	}
	return func(x *X, c *Client) {
		p := c.TryRecv("GET")
		if p == nil {
			x.Errorf("closed without an answer, wanted %v", codes)
		} else if !slices.Contains(codes, p.Status) {
			x.Errorf("status %d, wanted %v; the service saw %s", p.Status, codes, describe(x.Seen()))
		}
		c.MustEnd()
		time.Sleep(settle)
		if seen := x.Seen(); len(seen) > 0 {
			x.Errorf("the service saw %s", describe(seen))
		}
	}
}

// neverWhole is for a body that turns out to be broken while it streams: the service may have seen its beginning, but never
// a complete request; the client gets a 4xx, or at least its connection is closed.
func neverWhole(x *X, c *Client) {
	if p := c.TryRecv("GET"); p != nil {
		if p.Status < 400 || p.Status > 499 {
			x.Errorf("status %d, wanted 4xx; the service saw %s", p.Status, describe(x.Seen()))
		}
	}
	c.MustEnd()
	time.Sleep(settle)
	seen := x.Seen()
	if len(seen) > 1 {
		x.Errorf("the service saw more than one request: %s", describe(seen))
	}
	for _, q := range seen {
		if q.Complete {
			x.Errorf("the service saw a complete request: %s", describe(seen))
		}
	}
}

// forwarded expects exactly one clean request at the service and a 200 for the client; more checks further.
func forwarded(more ...func(x *X, q *Req)) Check {
	return func(x *X, c *Client) {
		p := c.Recv("GET")
		if p.Status != 200 || !p.Complete {
			x.Errorf("status %d complete %v, wanted 200", p.Status, p.Complete)
		}
		once(x, more...)
	}
}

// once expects exactly one clean request at the service.
func once(x *X, more ...func(x *X, q *Req)) {
	seen := x.Seen()
	if len(seen) != 1 || !seen[0].Complete || seen[0].Err != "" {
		x.Errorf("the service saw %s, wanted one complete request", describe(seen))
		return
	}
	for _, f := range more {
		f(x, &seen[0])
	}
}

// refusedOr accepts a refusal with any 4xx or 5xx from the proxy itself, with the connection closed and the service
// untouched; otherwise what safe accepts.
func refusedOr(safe Check) Check {
	return func(x *X, c *Client) {
		c.SetReadDeadline(time.Now().Add(c.x.within()))
		b, _ := c.R.Peek(12)
		if len(b) == 12 && (b[9] == '4' || b[9] == '5') {
			refused(400, 403, 404, 405, 411, 413, 414, 421, 431, 501, 505)(x, c)
			return
		}
		safe(x, c)
	}
}

// brokenOr accepts neverWhole, or else what safe accepts.
func brokenOr(safe Check) Check {
	return func(x *X, c *Client) {
		c.SetReadDeadline(time.Now().Add(c.x.within()))
		b, _ := c.R.Peek(12)
		if len(b) == 12 && b[9] == '2' {
			safe(x, c)
			return
		}
		neverWhole(x, c)
	}
}

// one is a safe reading: one request with this body.
func one(body string) Check {
	return forwarded(func(x *X, q *Req) {
		if q.Body != body {
			x.Errorf("the service got the body %q, wanted %q", clip(q.Body), clip(body))
		}
	})
}

// oneClosed is one, and the client's connection ends afterwards without another byte.
func oneClosed(body string) Check {
	f := one(body)
	return func(x *X, c *Client) {
		f(x, c)
		c.MustEnd()
	}
}

// noSmuggled expects that no request for /smuggled reached the service and nobody got an answer to it.
func noSmuggled(x *X, c *Client) {
	for i := 0; ; i++ {
		c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		if _, err := c.R.Peek(1); err != nil {
			break
		}
		p := c.TryRecv("GET")
		if p == nil {
			break
		}
		if strings.Contains(p.Body, "/smuggled") {
			x.Errorf("the client got an answer for the smuggled request")
		}
		if i > 5 {
			break
		}
	}
	time.Sleep(settle)
	for _, q := range x.Seen() {
		if strings.Contains(q.Target, "smuggled") {
			x.Errorf("the service saw the smuggled request: %s", describe(x.Seen()))
		}
	}
}

// field expects exactly these values of a field at the service.
func field(name string, want ...string) func(x *X, q *Req) {
	return func(x *X, q *Req) {
		if got := q.Fields.All(name); !slices.Equal(got, want) {
			x.Errorf("%s reached the service as %q, wanted %q", name, got, want)
		}
	}
}

// noField expects that the service does not see a field.
func noField(names ...string) func(x *X, q *Req) {
	return func(x *X, q *Req) {
		for _, n := range names {
			if q.Fields.Has(n) {
				x.Errorf("%s reached the service: %q", n, q.Fields.All(n))
			}
		}
	}
}

// target expects the request target byte for byte.
func target(want string) func(x *X, q *Req) {
	return func(x *X, q *Req) {
		if q.Target != want {
			x.Errorf("the target reached the service as %q, wanted %q", clip(q.Target), clip(want))
		}
	}
}

// answered expects a complete answer with this status; more checks further.
func answered(status int, more ...func(x *X, p *Resp)) Check {
	return func(x *X, c *Client) {
		p := c.Recv("GET")
		if p.Status != status || !p.Complete {
			x.Errorf("status %d complete %v (%v), wanted %d", p.Status, p.Complete, p.Err, status)
		}
		for _, f := range more {
			f(x, p)
		}
	}
}

// got expects exactly these values of a field at the client.
func got(name string, want ...string) func(x *X, p *Resp) {
	return func(x *X, p *Resp) {
		if v := p.Fields.All(name); !slices.Equal(v, want) {
			x.Errorf("%s reached the client as %q, wanted %q", name, v, want)
		}
	}
}

// body expects this body at the client.
func body(want string) func(x *X, p *Resp) {
	return func(x *X, p *Resp) {
		if p.Body != want {
			x.Errorf("the client got the body %q, wanted %q", clip(p.Body), clip(want))
		}
	}
}

// badGateway expects a 502 from the proxy itself that reveals none of the service's bytes.
func badGateway(leaks ...string) Check {
	return func(x *X, c *Client) {
		p := c.Recv("GET")
		if p.Status != 502 || !p.Complete {
			x.Errorf("status %d complete %v, wanted 502", p.Status, p.Complete)
		}
		for _, l := range leaks {
			if strings.Contains(p.Head, l) || strings.Contains(p.Body, l) {
				x.Errorf("the client saw %q", l)
			}
		}
	}
}

// cut expects that an answer which the service did not finish does not look finished.
func cut(x *X, c *Client) {
	p := c.TryRecv("GET")
	if p != nil && p.Status < 500 && p.Complete && p.Framing != "close" {
		x.Errorf("a cut answer looks whole: %d, %d bytes", p.Status, len(p.Body))
	}
	if p != nil && p.Framing == "close" && p.Complete {
		x.Errorf("a cut answer was ended like a whole one")
	}
	c.MustEnd()
}

// drain reads the remaining answers, so that a request in progress does not reach the service in the next case.
func drain(_ *X, c *Client) {
	for !c.Silent(150 * time.Millisecond) {
		if c.TryRecv("GET") == nil {
			return
		}
	}
}

// nginxFails lists what nginx 1.22 fails although it is configured with care, by what lies behind it.
var nginxFails = map[string]bool{
	// takes 1xx for the answer, and says 100 itself
	`1xx/102 is not the answer`:                      true,
	`1xx/100 of the service reaches the client`:      true, // now and then
	`1xx/103 for HEAD`:                               true,
	`1xx/103 is not the answer`:                      true,
	`1xx/103 with a length has no body`:              true,
	`1xx/199 is not the answer`:                      true,
	`1xx/1xx never reaches HTTP/1.0`:                 true,
	`1xx/Expect from HTTP/1.0 brings no 100`:         true,
	`1xx/a client that does not wait for 100`:        true,
	`1xx/hop-by-hop fields of 103`:                   true,
	`1xx/several 1xx`:                                true,
	`1xx/the proxy does not say 100 for the service`: true,
	`1xx/unasked 100 is not the answer`:              true,
	// sends no Host, and ends a cut answer cleanly
	`HTTP/1.0/cut chunked answer does not look whole`: true,
	`HTTP/1.0/without Host`:                           true,
	// takes a half-close for a departure
	`aborts/half-close after the request still gets the answer`: true,
	// lenient about chunk lines
	`chunks/NUL in extension`:       true,
	`chunks/data shorter than size`: true,
	`chunks/letters after space`:    true,
	// drops names that are no tokens, and bare CRs, instead of refusing
	`framing/TE bare CR after`: true,
	`framing/TE long s`:        true,
	// drops odd names
	`headers/name of all token characters`: true,
	// does not read Connection as a list of names
	`hop-by-hop/Connection of 1000 names`:           true,
	`hop-by-hop/Upgrade without Connection`:         true,
	`hop-by-hop/answer: Proxy-Connection`:           true,
	`hop-by-hop/answer: Upgrade offer`:              true,
	`hop-by-hop/answer: nominated field`:            true,
	`hop-by-hop/empty elements in Connection`:       true,
	`hop-by-hop/nominated before Connection`:        true,
	`hop-by-hop/nominated field`:                    true,
	`hop-by-hop/nominated in a list`:                true,
	`hop-by-hop/nominated in the second Connection`: true,
	// lenient about Host
	`host/IPv6 with rest`:                  true,
	`host/IPv6 without end`:                true,
	`host/absolute form HTTP/1.0`:          true,
	`host/absolute form with another port`: true,
	`host/angle brackets`:                  true,
	`host/backslash`:                       true,
	`host/fragment`:                        true,
	`host/high bytes`:                      true,
	`host/port is a word`:                  true,
	`host/port negative`:                   true,
	`host/query`:                           true,
	`host/quotes`:                          true,
	`host/two ports`:                       true,
	`host/user`:                            true,
	// speaks HTTP/0.9
	`keep-alive/good, then bad`: true,
	// drops names that are no tokens instead of refusing
	`lines/CR CR LF`:            true,
	`lines/at in name`:          true,
	`lines/backslash in name`:   true,
	`lines/brace in name`:       true,
	`lines/bracket in name`:     true,
	`lines/comma in name`:       true,
	`lines/equals in name`:      true,
	`lines/high byte in name`:   true,
	`lines/no colon`:            true,
	`lines/parenthesis in name`: true,
	`lines/quote in name`:       true,
	`lines/semicolon in name`:   true,
	`lines/slash in name`:       true,
	// decodes the path, and refuses what leaves the root
	`path//%`:                true,
	`path//%2E%2E%2Fa`:       true,
	`path//%2e%2e/a`:         true,
	`path//%zz`:              true,
	`path//..`:               true,
	`path//../../etc/passwd`: true,
	`path//a%00b`:            true,
	// takes a half-close for a departure
	`pipelining/then half-close`: true,
	// lenient about white space and versions
	`request line/HTTP/0.9`:                             true,
	`request line/OPTIONS asterisk reaches the service`: true,
	`request line/absolute ftp`:                         true,
	`request line/absolute other host`:                  true,
	`request line/no version`:                           true,
	`request line/trailing space`:                       true,
	`request line/two spaces before target`:             true,
	`request line/two spaces before version`:            true,
	`request line/version 1.01`:                         true,
	`request line/version 1.10`:                         true,
	`request line/version 1.2`:                          true,
	`request line/version 1.9`:                          true,
	// repeats idempotent requests with a body, and after an answer began
	`retry/GET with body is not sent twice`:      true,
	`retry/PUT with body is not sent twice`:      true,
	`retry/no second try after the answer began`: true,
	// does not read trailers, and passes look-alikes on
	`smuggling/CL underscore look-alike`:   true,
	`smuggling/TE.TE with CL, underscore`:  true,
	`smuggling/request in trailer section`: true,
	// passes look-alikes on
	`spoofing/X-Forwarded_For`: true,
	`spoofing/X_Forwarded_For`: true,
	`spoofing/X_Real_IP`:       true,
	// believes services: no checks of versions, lengths and names
	`strictness/CR in the reason`:                 true,
	`strictness/HTML without a head`:              true,
	`strictness/HTTP/2`:                           true,
	`strictness/HTTP/2.0`:                         true,
	`strictness/ICY`:                              true,
	`strictness/chunked not last`:                 true,
	`strictness/chunked with a word before`:       true,
	`strictness/endless 1xx`:                      true,
	`strictness/garbage`:                          true,
	`strictness/high byte in a name`:              true,
	`strictness/length list differing`:            true,
	`strictness/length of letters`:                true,
	`strictness/length overflow`:                  true,
	`strictness/length with plus`:                 true,
	`strictness/negative length`:                  true,
	`strictness/negative status`:                  true,
	`strictness/no version`:                       true,
	`strictness/only 100 and then the end`:        true,
	`strictness/status of four digits`:            true,
	`strictness/status of letters`:                true,
	`strictness/status of two digits`:             true,
	`strictness/two Transfer-Encodings differing`: true,
	`strictness/two lengths`:                      true,
	// drops trailers
	`trailers/of a request`: true,
	`trailers/of an answer`: true,
	// passes any 101 on
	`upgrade/101 that nobody asked for`:      true,
	`upgrade/101 to a POST`:                  true,
	`upgrade/101 to another protocol`:        true,
	`upgrade/101 to h2c`:                     true,
	`upgrade/101 without Upgrade`:            true,
	`upgrade/half-close towards the service`: true,
	`upgrade/websocket from HTTP/1.0`:        true,
	`upgrade/websocket without nomination`:   true,
}

// nginxFailsHTTP2 is the same over HTTP/2.
var nginxFailsHTTP2 = map[string]bool{
	// leaves fields of a connection out instead of refusing them
	`http2/refused: connection: close`:             true,
	`http2/refused: connection: x-a`:               true,
	`http2/refused: keep-alive: timeout=5`:         true,
	`http2/refused: proxy-connection: keep-alive`:  true,
	`http2/refused: te: gzip`:                      true,
	`http2/refused: te: trailers, deflate`:         true,
	`http2/refused: transfer-encoding: chunked`:    true,
	`http2/refused: upgrade: websocket`:            true,
	`http2/refused: a byte above 0x7f in a name`:   true,
	`http2/refused: a pseudo field behind a field`: true,
	// refuses what is fine
	`http2/* of OPTIONS`:              true,
	`http2/a head in pieces`:          true,
	`http2/the authority is the host`: true,
	// has no small enough limit
	`http2/too large a head`: true,
	// passes no trailers on, and no interim answers
	`http2/a client that waits for 100`:                 true,
	`http2/an interim answer is not the answer`:         true,
	`http2/trailers of an answer`:                       true,
	`http2/trailers: they reach the service, or nobody`: true,
	// has no RFC 8441
	`http2/CONNECT: a WebSocket`: true,
}

// nginxFailsRaw is the same over HTTP/2 with a service that sends bytes of its own.
var nginxFailsRaw = map[string]bool{
	// believes services
	`http2 raw/bad answer: a signed length`:                   true,
	`http2 raw/bad answer: a switch that nobody asked for`:    true,
	`http2 raw/bad answer: an unknown coding`:                 true,
	`http2 raw/bad answer: another protocol`:                  true,
	`http2 raw/bad answer: no colon`:                          true,
	`http2 raw/bad answer: two lengths`:                       true,
	`http2 raw/fields of the service's connection stay there`: true,
	// takes an interim answer for the answer
	`http2 raw/100 that nobody waits for is no answer`:         true,
	`http2 raw/103 reaches the client before the answer`:       true,
	`http2 raw/a client that waits for 100`:                    true,
	`http2 raw/an answer behind an interim answer is nobody's`: true,
	// passes no trailers on, and takes some for an error
	`http2 raw/a length with trailers behind it`:    true,
	`http2 raw/chunks with extensions and trailers`: true,
	`http2 raw/trailers without a body`:             true,
	// passes on what it does not know
	`http2 raw/refused: a path with a fragment`:              true,
	`http2 raw/refused: an authority with a backslash`:       true,
	`http2 raw/refused: an authority with a bracket`:         true,
	`http2 raw/refused: an authority with a fragment`:        true,
	`http2 raw/refused: an authority with a password`:        true,
	`http2 raw/refused: an authority with a port of letters`: true,
	`http2 raw/refused: an authority with a query`:           true,
	`http2 raw/refused: an authority with an escape`:         true,
	`http2 raw/refused: an authority with half of IPv6`:      true,
	`http2 raw/refused: an authority with two ports`:         true,
	`http2 raw/who is who`:                                   true,
	// others
	`http2 raw/a POST without a body says so`:                              true,
	`http2 raw/a head that can't be read: a table that changes at the end`: true,
	`http2 raw/one Host, nothing of HTTP/2, nothing of a connection`:       true, // refuses a Host beside the authority
}
