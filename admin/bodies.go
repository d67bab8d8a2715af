package admin

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"

	"antirobot/message/rpc"
)

// unknownBody is how long the body of a request may be whose sender is not known: that of the console's form to sign in.
const unknownBody = 16 << 10

// received bounds the body of a request by its head: room for a body is made before any of it has come.
func (s *Server) received(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	most := int64(unknownBody)
	switch path, _, _ := bytes.Cut(h.RequestURI(), []byte("?")); {
	case s.forPartners(string(path)):
		most = s.deps.MaxMessage
	case s.known(h, string(path)):
		most = maxBody
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: int(most)}
}

// forPartners reports whether a path is one of the message firewall that needs no token: partners show a key, which may be in the body.
func (s *Server) forPartners(path string) bool {
	_, ok := messageCodec(path)
	return (ok || strings.HasPrefix(path, rpc.AkismetPrefix)) && s.deps.Messages != nil && s.deps.MessagesOpen
}

// known reports whether who asks has a token, or has signed in to the console.
func (s *Server) known(h *fasthttp.RequestHeader, path string) bool {
	if inConsole(path) {
		return s.console != nil && s.console.SignedIn(h)
	}
	_, ok := s.tokens.ofField(h.Peek("Authorization"), s.now())
	return ok
}

// tooLong is what a body gets that is longer than received allows.
func (s *Server) tooLong(ctx *fasthttp.RequestCtx) *problem {
	path, _, _ := strings.Cut(string(ctx.Request.Header.RequestURI()), "?")
	if s.forPartners(path) || s.known(&ctx.Request.Header, path) {
		return bodyTooLarge()
	}
	return s.unauthorized(ctx)
}
