package h2

import (
	"net"
	"net/http"

	"golang.org/x/net/http2"

	_ "antirobot/proxy/h2/xconnect" // it offers WebSockets
)

// frames reads and writes HTTP/2. The deprecation notice recommends net/http's server instead; but that would accept and
// greet the connections itself, without PROXY protocol, and without our counts and limits.
type frames struct {
	server http2.Server //nolint:staticcheck // see above
}

// newFrames takes its settings from base.
func newFrames(base *http.Server) *frames {
	f := new(frames)
	if err := http2.ConfigureServer(base, &f.server); err != nil { //nolint:staticcheck // see above
		panic("BUG: " + err.Error()) // it fails for cipher suites alone, and there are none in base
	}
	return f
}

// serve serves a connection until it ends. Handlers of its streams may still run then.
func (f *frames) serve(nc net.Conn, base *http.Server, h http.Handler) {
	f.server.ServeConn(nc, &http2.ServeConnOpts{BaseConfig: base, Handler: h}) //nolint:staticcheck // see above
}
