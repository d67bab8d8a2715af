package admin

import (
	"bytes"
	"net"
	"strings"

	"github.com/valyala/fasthttp"
)

// Console is the web pages of the private listener, below /console/. Its cookies are good for these pages alone: the
// API knows none. *console.Console is it.
type Console interface {
	Serve(ctx *fasthttp.RequestCtx)
	// SignedIn reports whether a request belongs to a session.
	SignedIn(h *fasthttp.RequestHeader) bool
}

// Mount puts the console in front of this server's API. It is called before Serve.
func (s *Server) Mount(c Console) { s.console = c }

const consolePath = "/console"

func inConsole(path string) bool {
	return path == "/" || path == consolePath || strings.HasPrefix(path, consolePath+"/")
}

// sameOrigin reports whether an Origin is that of the host that was asked for.
func sameOrigin(origin, host string) bool {
	_, of, ok := strings.Cut(origin, "://")
	return ok && strings.EqualFold(of, host)
}

// Ask calls the API on behalf of who, with a body of JSON or none. The rules are those of a call over the network.
func (s *Server) Ask(who Caller, method, target string, body []byte) (status int, answer []byte) {
	var req fasthttp.Request
	req.Header.SetMethod(method)
	req.SetRequestURI(target)
	if body != nil {
		req.Header.SetContentType("application/json")
		req.SetBody(body)
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&req, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, nil)
	if err := s.answer(&ctx, string(ctx.URI().PathOriginal()), who); err != nil {
		answerProblem(&ctx, err)
	}
	return ctx.Response.StatusCode(), bytes.Clone(ctx.Response.Body())
}
