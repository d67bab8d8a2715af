package replay

import (
	"bytes"
	"compress/gzip"
	"io"
	"strconv"
	"strings"
	"time"

	"antirobot/captcha"
	"antirobot/proxy"
	"antirobot/request"
)

// OwnAnswer is an answer of one of the gateway's own pages.
type OwnAnswer struct {
	Status  int
	Body    []byte
	Cookies []string      // name=value, of those that it sets
	To      string        // where it leads; empty: nowhere
	After   time.Duration // when to come again; 0: it does not say
}

// Answer answers a request for one of the gateway's own pages as a live gateway does; body is the request's.
func (g *Gateway) Answer(v *request.View, body []byte) OwnAnswer {
	if !g.begin(v, v.Kind()) || g.one.Own() == captcha.EndpointNone {
		return OwnAnswer{Status: 404}
	}
	g.one.Visit()
	r := g.one.Answer(body)
	g.served.Judged = g.one.Tell(&proxy.Facts{Status: r.Status, Kind: proxy.KindOf(r.Outcome), Work: r.Work})
	return ownAnswer(&r)
}

func ownAnswer(r *captcha.Response) OwnAnswer {
	a := OwnAnswer{Status: r.Status, Body: r.Body}
	for _, f := range r.Header {
		switch f.Name {
		case "Set-Cookie":
			pair, _, _ := strings.Cut(f.Value, ";")
			a.Cookies = append(a.Cookies, pair)
		case "Location":
			a.To = f.Value
		case "Content-Encoding":
			a.Body = unzipped(r.Body)
		case "Retry-After":
			if n, err := strconv.Atoi(f.Value); err == nil {
				a.After = time.Duration(n) * time.Second
			}
		}
	}
	return a
}

// unzipped returns a page of ours as a browser shows it.
func unzipped(body []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	body, _ = io.ReadAll(z) // it is ours, and whole
	return body
}
