package acme

import (
	"bytes"
	"net/http"
	"net/url"

	"antirobot/proxy/h1"
	"antirobot/request"
)

// Challenges answers HTTP-01 challenges on listeners without TLS, and passes on other requests.
type Challenges struct {
	Keeper *Keeper
	Next   h1.Handler
}

var challengePath = []byte("/.well-known/acme-challenge/")

// ServeExchange implements h1.Handler.
func (c *Challenges) ServeExchange(x *h1.Exchange) {
	v := &x.View
	if !bytes.HasPrefix(v.Path, challengePath) || string(v.Method) != "GET" {
		c.Next.ServeExchange(x)
		return
	}
	r := &http.Request{Method: http.MethodGet, Host: string(v.Host), URL: &url.URL{Path: string(v.Path)}}
	w := answer{header: http.Header{}, status: http.StatusOK}
	if !c.Keeper.issuer.HandleHTTPChallenge(&w, r) || w.status != http.StatusOK {
		c.Next.ServeExchange(x) // the service may run an ACME client
		return
	}
	_ = x.Reply(w.status, []request.Field{{Name: []byte("Content-Type"), Value: []byte("text/plain")}}, w.body.Bytes())
}

type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter, as do the methods below.
func (a *answer) Header() http.Header { return a.header }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }
