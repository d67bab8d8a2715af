package proxy

import (
	"bytes"

	"antirobot/proxy/h1"
	"antirobot/request"
)

// Redirect sends visitors of a listener without TLS to https.
type Redirect struct {
	Port string // of TLS
}

var nameLocation = []byte("Location")

// ServeExchange implements h1.Handler. Methods with a body keep it: 308.
func (r Redirect) ServeExchange(x *h1.Exchange) {
	v := &x.View
	if len(v.Host) == 0 || len(v.Target) == 0 || v.Target[0] != '/' {
		_ = x.Reply(400, nil, nil)
		return
	}
	to := []byte("https://")
	if bytes.IndexByte(v.Host, ':') >= 0 {
		to = append(append(append(to, '['), v.Host...), ']')
	} else {
		to = append(to, v.Host...)
	}
	if r.Port != "443" {
		to = append(append(to, ':'), r.Port...)
	}
	status := 308
	if m := string(v.Method); m == "GET" || m == "HEAD" {
		status = 301
	}
	_ = x.Reply(status, []request.Field{{Name: nameLocation, Value: append(to, v.Target...)}}, nil)
}
