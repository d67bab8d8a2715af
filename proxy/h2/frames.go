package h2

import (
	"net"
	"net/http"

	"golang.org/x/net/http2"

	_ "antirobot/proxy/h2/xconnect" // offers extended CONNECT
)

// frames handles HTTP/2. net/http's server, which the deprecation notice recommends, would accept connections itself,
// without PROXY protocol and our limits.
type frames struct {
	server http2.Server //nolint:staticcheck // see above
}

func newFrames(base *http.Server) *frames {
	f := new(frames)
	if err := http2.ConfigureServer(base, &f.server); err != nil { //nolint:staticcheck // see above
		panic("BUG: " + err.Error()) // impossible: base sets no cipher suites
	}
	return f
}

// serve serves a connection until it ends; handlers may still run then.
func (f *frames) serve(nc net.Conn, base *http.Server, h http.Handler) {
	f.server.ServeConn(nc, &http2.ServeConnOpts{BaseConfig: base, Handler: h}) //nolint:staticcheck // see above
}
