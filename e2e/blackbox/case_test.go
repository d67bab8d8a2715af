package blackbox

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

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
