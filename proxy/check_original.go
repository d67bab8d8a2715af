package proxy

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// headerSet names the fields in which a balancer describes the original request. Only one set is trusted; the fields of the
// others are assumed to come from the client.
type headerSet struct {
	method, host, uri string // all three empty: the call's own, with the original target below the check path
	addr, proto       string
}

func headerSetOf(name string) *headerSet {
	switch name {
	case "original":
		return &headerSet{"X-Original-Method", "X-Original-Host", "X-Original-URI", "X-Original-Addr", "X-Original-Proto"}
	case "envoy":
		return &headerSet{addr: listOfHops, proto: "X-Forwarded-Proto"}
	default:
		return &headerSet{"X-Forwarded-Method", "X-Forwarded-Host", "X-Forwarded-Uri", listOfHops, "X-Forwarded-Proto"}
	}
}

// passedOn is the set of style full: the request is the original one, as it would come through any proxy.
var passedOn = &headerSet{addr: listOfHops, proto: "X-Forwarded-Proto"}

// ofSender is the part of s that calls other than checks use: they are the original request, so only its sender needs to be
// named. It must be named as in the check, or check and challenge would judge two different people.
func (s *headerSet) ofSender() *headerSet { return &headerSet{addr: s.addr, proto: s.proto} }

// inPath reports whether the original target stands in the path of a check.
func (s *headerSet) inPath() bool { return s.uri == "" }

// original is the content of a set's fields.
type original struct {
	method, host, uri, addr, proto []byte
	rest                           []byte // the hops of addr before the last
	addrAt                         int    // which field of the call addr came from
}

// listOfHops is the field to which each proxy appends the address that it saw.
const listOfHops = "X-Forwarded-For"

// is reports whether a field has that name; no field has the name "".
func is(f *request.Field, name string) bool {
	return name != "" && request.EqualFold(f.Name, name)
}

// collect reads the fields of set. A duplicate is refused: one of them would be the client's, and it is unclear which one
// is read. With last, the last of several counts: some balancers append their own field.
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

// whence fills in the sender of the request: the hop that the balancer saw, in place of the balancer itself.
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

// what fills in method, host and target of a check. host is memory for the name.
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

// fields appends the fields of the original request: those of the call, without what the balancer added. The hops before
// the last stay: identity reads on if the last is a trusted proxy.
func (o *original) fields(dst, call []request.Field, set *headerSet, v *request.View) []request.Field {
	for i, f := range call {
		switch {
		case i == o.addrAt, is(&f, set.method), is(&f, set.host), is(&f, set.uri), is(&f, set.proto), is(&f, SecretField):
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

// admits reports whether the caller may ask: a balancer by its address, others by the secret. The secret's field must occur
// exactly once; the comparison takes constant time.
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
