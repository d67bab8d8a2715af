package extauthz

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"antirobot/proxy/h1"
	"antirobot/request"
)

type call struct {
	h1.Memory
	whole   *h1.Streamed // requests with their body
	bare    *h1.Streamed // requests without
	q       question
	head    h1.Head
	target  []byte
	message []byte // from Envoy

	status int // of the answer, which is copied
	fields []request.Field
	body   []byte
}

func newCall(d *Deps) *call {
	k := new(call)
	k.whole, k.bare = d.Whole.Streamed(k), d.Bare.Streamed(k)
	return k
}

// BarePath is the check path of Bare, before the request's own.
const BarePath = "/check"

// Human is the location of Whole's check for requests that pass.
const Human = "@human"

var (
	nameHost    = []byte("host")
	namePartial = []byte("x-envoy-auth-partial-body")
	nameLength  = []byte("content-length")

	nameEncoding     = []byte("accept-encoding")
	identityEncoding = []byte("identity")
)

// leftOut are fields of the visitor's connection or body, and Envoy's own.
var leftOut = []string{
	"connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade",
	"http2-settings", "x-request-id",
}

// ask asks the check that fits and returns its status, or that of an invalid request. secret is the caller's field, or
// unnamed.
func (k *call) ask(from netip.Addr, secret request.Field) int {
	if k.status = 0; k.q.many {
		return 431
	}
	whole, partial := true, []byte(nil)
	announced := k.q.size
	k.head.Method = k.q.method
	k.head.Fields = append(k.head.Fields[:0], request.Field{Name: nameHost, Value: k.q.host})
	for _, f := range k.q.fields {
		switch {
		case bytes.Equal(f.Name, namePartial):
			partial = f.Value
		case bytes.Equal(f.Name, nameLength):
			if n, err := strconv.ParseInt(string(f.Value), 10, 64); err == nil {
				announced = max(announced, n)
			}
		case strings.HasPrefix(string(f.Name), ":"), strings.HasPrefix(string(f.Name), "x-envoy-"),
			slices.Contains(leftOut, string(f.Name)), bytes.Equal(f.Name, secret.Name):
		case bytes.Equal(f.Name, nameEncoding): // the answer is text
			k.head.Fields = append(k.head.Fields, request.Field{Name: f.Name, Value: identityEncoding})
		default:
			k.head.Fields = append(k.head.Fields, f)
		}
	}
	if len(secret.Name) > 0 {
		k.head.Fields = append(k.head.Fields, secret)
	}
	if string(partial) != "false" { // the body may be partial
		whole = announced <= 0 && (string(k.q.method) == "GET" || string(k.q.method) == "HEAD" ||
			string(k.q.method) == "OPTIONS")
	}
	whole = whole && announced <= int64(len(k.q.body))
	return k.serve(whole, from)
}

func (k *call) serve(whole bool, from netip.Addr) int {
	k.status, k.fields, k.body = 0, k.fields[:0], k.body[:0]
	x := k.whole
	k.target, k.head.Length = append(k.target[:0], k.q.path...), int64(len(k.q.body))
	k.Give(k.q.body)
	if whole && len(k.q.body) > 0 {
		k.head.Fields = append(k.head.Fields, request.Field{
			Name:  nameLength,
			Value: strconv.AppendInt(nil, k.head.Length, 10),
		})
	}
	if !whole {
		x = k.bare
		k.target, k.head.Length = append(append(k.target[:0], BarePath...), k.q.path...), 0
		k.Give(nil)
	}
	k.head.Target = k.target
	if status := x.Serve(&k.head, h1.Origin{Peer: from, Trusted: true}); status != 0 {
		return status
	}
	if k.status == 200 && !whole {
		k.fields = append(k.fields, request.Field{Name: []byte(nameHuman), Value: []byte(Human)})
	}
	return k.status
}

func (k *call) Reply(status int, fields []request.Field, body []byte) error {
	k.status = status
	for _, f := range fields {
		k.fields = append(k.fields, request.Field{Name: bytes.ToLower(f.Name), Value: bytes.Clone(f.Value)})
	}
	k.body = append(k.body, body...)
	return nil
}

const (
	nameHuman  = "x-accel-redirect" // of a request that passes
	nameMark   = "x-antirobot-mark"
	nameCookie = "set-cookie"

	permissionDenied = 7 // of google.rpc.Code
)

func (k *call) field(name string) string {
	for _, f := range k.fields {
		if string(f.Name) == name {
			return string(f.Value)
		}
	}
	return ""
}

func (k *call) appendAnswer(dst []byte, status int) []byte {
	if status == 200 && k.field(nameHuman) == Human {
		return appendMessage(appendMessage(dst, answerStatus, nil), answerOK, k.appendOK(nil))
	}
	body, fields := k.body, k.fields
	switch {
	case k.status == 0: // an invalid request
		body, fields = nil, nil
	case !utf8.Valid(body) || k.field("content-encoding") != "": // CheckResponse carries text only
		status, fields = 421, nil
		body = []byte("Antirobot: this path is the gateway's own: Envoy must send it to the gateway without a " +
			"question.\n")
	}
	denied := appendMessage(nil, deniedStatus, appendNumber(nil, statusCode, uint64(status)))
	for _, f := range fields {
		denied = appendOption(denied, deniedHeaders, f.Name, f.Value, string(f.Name) == nameCookie)
	}
	denied = appendMessage(denied, deniedBody, body)
	dst = appendMessage(dst, answerStatus, appendNumber(nil, statusCode, permissionDenied))
	return appendMessage(dst, answerDenied, denied)
}

// told are fields, beside marks, that a gateway in the path sends to the service.
var told = [...]string{"x-antirobot-verdict", "x-antirobot-client", "x-antirobot-passed", "x-antirobot-delivery"}

// appendOK passes a human: the cookie goes to the visitor, marks to the service, and trusted fields of the client are
// removed.
func (k *call) appendOK(dst []byte) []byte {
	marked := false
	for _, f := range k.fields {
		switch string(f.Name) {
		case nameCookie:
			dst = appendOption(dst, okResponse, f.Name, f.Value, true)
		case nameMark:
			dst = appendOption(dst, okHeaders, f.Name, f.Value, marked)
			marked = true
		}
	}
	if !marked {
		dst = appendMessage(dst, okRemove, []byte(nameMark))
	}
	for _, name := range told {
		dst = appendMessage(dst, okRemove, []byte(name))
	}
	return dst
}
