package blackbox

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// web is the service behind the proxy that speaks HTTP/1.1 and HTTP/2, by net/http, which is nobody's relative here.
type web struct {
	*httptest.Server

	busy atomic.Int64 // requests that are being served

	mu    sync.Mutex
	of    string // the case, as its requests name it
	calls []*call
	serve func(*call, http.ResponseWriter, *http.Request)
}

// fieldCase is the field by which a request names its case: one of an earlier case may come late.
const fieldCase = "X-Case"

// call is a request as the service saw it.
type call struct {
	Proto, Method, Target, Host string
	Length                      int64
	Header, Trailer             http.Header
	Body                        string
	Done                        bool // the body was read
	Whole                       bool // to its proper end
}

func newWeb() *web {
	v := new(web)
	v.Server = httptest.NewUnstartedServer(v)
	v.Config.ErrorLog = log.New(io.Discard, "", 0) // cases end handlers by panics
	v.Config.DisableGeneralOptionsHandler = true
	v.Config.Protocols = new(http.Protocols)
	v.Config.Protocols.SetHTTP1(true)
	v.Config.Protocols.SetUnencryptedHTTP2(true)
	v.Start()
	return v
}

// ServeHTTP implements http.Handler.
func (v *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.busy.Add(1)
	defer v.busy.Add(-1)
	c := &call{Proto: r.Proto, Method: r.Method, Target: r.RequestURI, Host: r.Host, Length: r.ContentLength, Header: r.Header.Clone()}
	v.mu.Lock()
	of, serve := r.Header.Get(fieldCase), v.serve
	late := of != "" && of != v.of
	if !late {
		v.calls = append(v.calls, c)
	}
	v.mu.Unlock()
	if serve == nil || late || r.URL.Path == "/still-alive" {
		serve = v.ok
	}
	serve(c, w, r)
}

// body reads the rest of a request.
func (v *web) body(c *call, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	v.mu.Lock()
	defer v.mu.Unlock()
	c.Body, c.Trailer, c.Done, c.Whole = string(b), r.Trailer, true, err == nil
}

// ok is the answer unless a case says otherwise: it names the request, so that answers can't be mixed up.
func (v *web) ok(c *call, w http.ResponseWriter, r *http.Request) {
	v.body(c, r)
	_, _ = io.WriteString(w, "for "+r.Method+" "+r.RequestURI)
}

// next begins a case, and returns how its requests name it.
func (v *web) next() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	n, _ := strconv.Atoi(v.of)
	v.of, v.calls, v.serve = strconv.Itoa(n+1), nil, nil
	return v.of
}

// begin makes serve what requests get from now on; nil: ok.
func (v *web) begin(serve func(*call, http.ResponseWriter, *http.Request)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls, v.serve = nil, serve
}

// web is the service of the case.
func (x *X) web() *web { return x.env.web }

// called returns copies of the requests that the service has seen, but those of mustLive.
func (x *X) called() (all []call) {
	v := x.web()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.calls {
		if c.Target != "/still-alive" {
			all = append(all, *c)
		}
	}
	return all
}

// onlyCall is the only request that the service sees, read to its end. If none has come by now, none will.
func (x *X) onlyCall() call {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		all := x.called()
		if len(all) == 1 && all[0].Done {
			return all[0]
		}
		if len(all) != 1 || time.Now().After(end) {
			x.Fatalf("the service saw %d requests: %s", len(all), seen(all))
		}
	}
}

func seen(all []call) string { return clip(fmt.Sprintf("%+v", all)) }
