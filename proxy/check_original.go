package proxy

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// headerSet names the fields in which a balancer describes the request. Only one set is trusted; other fields are the
// client's.
type headerSet struct {
	method, host, uri string // all empty: those of the call, with the target below the check path
	addr, proto       string
}

func headerSetOf(name string) *headerSet {
	switch name {
	case "original":
		return &headerSet{
			"X-Original-Method", "X-Original-Host", "X-Original-URI", "X-Original-Addr",
			"X-Original-Proto",
		}
	case "envoy":
		return &headerSet{addr: listOfHops, proto: "X-Forwarded-Proto"}
	default:
		return &headerSet{"X-Forwarded-Method", "X-Forwarded-Host", "X-Forwarded-Uri", listOfHops, "X-Forwarded-Proto"}
	}
}

// passedOn is the set of style full: the call is the request itself.
var passedOn = &headerSet{addr: listOfHops, proto: "X-Forwarded-Proto"}

// ofSender is the part of s for calls other than checks. Check and challenge must name the same sender.
func (s *headerSet) ofSender() *headerSet { return &headerSet{addr: s.addr, proto: s.proto} }

func (s *headerSet) inPath() bool { return s.uri == "" }

type original struct {
	method, host, uri, addr, proto []byte
	rest                           []byte // hops before the last
	addrAt                         int    // index of addr's field
}

const listOfHops = "X-Forwarded-For"

func is(f *request.Field, name string) bool {
	return name != "" && request.EqualFold(f.Name, name)
}

// collect reads the fields of set. A duplicate is refused, since one may be the client's; with last, the last one
// counts.
func (o *original) collect(fields []request.Field, set *headerSet, last bool) (problem string) {
	*o = original{addrAt: -1}
	for i := range fields {
		f := &fields[i]
		for _, want := range [...]struct {
			name string
			into *[]byte
		}{{set.method, &o.method}, {set.host, &o.host}, {set.uri, &o.uri}, {set.addr, &o.addr}, {set.proto, &o.proto}} {
			if !is(f, want.name) {
				continue
			}
			if *want.into != nil && !last {
				return want.name + " comes twice"
			}
			*want.into = f.Value
			if f.Value == nil {
				*want.into = []byte{}
			}
			if want.into == &o.addr {
				o.addrAt = i
			}
		}
	}
	if set.addr == listOfHops {
		if i := bytes.LastIndexByte(o.addr, ','); i >= 0 {
			o.rest, o.addr = o.addr[:i], o.addr[i+1:]
		}
	}
	if last {
		o.proto = o.proto[bytes.LastIndexByte(o.proto, ',')+1:]
	}
	return ""
}

// whence sets the sender of the request in place of the balancer.
func (o *original) whence(v *request.View, set *headerSet) (problem string) {
	addr, ok := request.ParseNode(bytes.TrimSpace(o.addr))
	switch {
	case len(o.addr) == 0:
		return set.addr + " is missing"
	case !ok:
		return set.addr + " does not end with an address"
	case len(o.proto) == 0:
		return set.proto + " is missing"
	}
	v.Peer = addr
	switch proto := bytes.TrimSpace(o.proto); {
	case request.EqualFold(proto, "https"), request.EqualFold(proto, "wss"):
		v.TLS = true
	case request.EqualFold(proto, "http"), request.EqualFold(proto, "ws"):
		v.TLS = false
	default:
		return set.proto + " is neither http nor https"
	}
	return ""
}

// what sets method, host and target of a check. host is memory for the name.
func (o *original) what(v *request.View, set *headerSet, host []byte) (_ []byte, problem string) {
	for _, f := range [...]struct {
		name  string
		value []byte
	}{{set.method, o.method}, {set.host, o.host}, {set.uri, o.uri}} {
		if len(f.value) == 0 {
			return host, f.name + " is missing"
		}
	}
	host, ok := request.AppendHostName(host[:0], o.host)
	switch {
	case !wire.ValidMethod(o.method):
		return host, set.method + " is no method"
	case !ok:
		return host, set.host + " is not a host"
	}
	v.Method, v.Host, v.HostPort = o.method, host, o.host
	if !setTarget(v, o.uri) {
		return host, set.uri + " is not a path"
	}
	return host, ""
}

// setTarget sets target, path and query, and reports whether target is valid.
func setTarget(v *request.View, target []byte) bool {
	if !wire.ValidTarget(v.Method, target) {
		return false
	}
	v.Target, v.Path, v.Query = target, target, nil
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		v.Path, v.Query = target[:i], target[i+1:]
	}
	return true
}

// fields appends the fields of the original request, without those of the balancer. Earlier hops stay for identity.
func (o *original) fields(dst, call []request.Field, set *headerSet, v *request.View) []request.Field {
	for i, f := range call {
		switch {
		case i == o.addrAt, is(&f, set.method), is(&f, set.host), is(&f, set.uri), is(&f, set.proto),
			is(&f, SecretField):
			continue
		case is(&f, "Host"):
			f.Value = v.HostPort
		}
		dst = append(dst, f)
	}
	if o.rest != nil {
		dst = append(dst, request.Field{Name: nameForwardedFor, Value: o.rest})
	}
	return dst
}

// admits reports whether the caller may ask. The secret must occur exactly once; it is compared in constant time.
func (r *CheckRules) admits(v *request.View) bool {
	if r.allows(v.Peer) {
		return true
	}
	if len(r.secret) == 0 {
		return false
	}
	var given []byte
	n := 0
	for i := range v.Fields {
		if is(&v.Fields[i], SecretField) {
			given = v.Fields[i].Value
			n++
		}
	}
	want, got := sha256.Sum256(r.secret), sha256.Sum256(given)
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && n == 1
}
