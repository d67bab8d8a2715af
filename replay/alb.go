package replay

import (
	"bytes"
	"net/netip"
	"slices"
)

// albTypes are the first column of an Application Load Balancer's lines.
var albTypes = []string{"http", "https", "h2", "grpcs", "ws", "wss"}

// albNames are the columns before the request, but for the type.
var albNames = [...]string{
	"time", "elb", "client:port", "target:port", "request_processing_time", "target_processing_time",
	"response_processing_time",
	"elb_status_code", "target_status_code", "received_bytes", "sent_bytes",
}

// isoShape is how times of ISO 8601 begin.
const isoShape = "0000-00-00T00:00:00"

// isALB reports whether a line begins as a load balancer's of AWS does. Lines of syslog may begin with the time, too.
func isALB(line []byte) bool {
	first, rest := word(line)
	if slices.Contains(albTypes, string(first)) {
		return shaped(rest, isoShape)
	}
	if !shaped(line, isoShape) {
		return false
	}
	_, rest = word(rest)
	client, _ := word(rest)
	_, ok := parseClient(client)
	return ok
}

// parseALB reads the access log of an AWS Application Load Balancer
// (https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html):
//
//	https 2026-03-02T07:15:30.250000Z app/shop/50dc6c495c0c9188 203.0.113.7:2817 10.0.0.1:80 0.000 0.250 0.000 200 200 34 366
//	"GET https://shop.example:443/a?b HTTP/2.0" "curl/8.5.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:… "Root=1-…" "shop.example"
//	"arn:…" 0 2026-03-02T07:15:30.000000Z "forward" …
//
// in one line, and that of a classic load balancer, which has neither the type nor what follows TLS
// (https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/access-log-collection.html).
func parseALB(r *Record, line []byte) error {
	rest := r.reset(line)
	if first, after := word(rest); slices.Contains(albTypes, string(first)) {
		rest = after
	}
	var values [len(albNames)][]byte
	for i := range values {
		if values[i], rest = word(rest); len(values[i]) == 0 {
			return badField(albNames[i], nil)
		}
	}
	bad := func(i int) error { return badField(albNames[i], values[i]) }
	var ok bool
	if r.At, ok = parseAnyTime(values[0]); !ok {
		return bad(0)
	}
	if r.Addr, ok = parseClient(values[2]); !ok {
		return bad(2)
	}
	for _, v := range values[4:7] { // -1: it did not come to that
		r.Answer.Took += clampTook(parseFloat(v))
	}
	if r.Answer.Status, ok = parseStatus(values[7]); !ok && !isDash(values[7]) {
		return bad(7)
	}
	r.Answer.Bytes = parseCount(values[10])
	request, rest, err := quoted(rest)
	if err != nil {
		return badField("request in quotes", nil)
	}
	if len(rest) > 0 && rest[0] == '"' { // the classic one did not always have it
		var agent []byte
		if agent, rest, err = quoted(rest); err != nil {
			return badField("end of user_agent", nil)
		}
		if !isDash(agent) {
			r.field(nameAgent, agent)
		}
	}
	const created = 8 // request_creation_time is so far behind the user agent
	begin, _ := columnOf(rest, func(n, _ int, _ []byte) bool { return n == created })
	if at, ok := parseAnyTime(begin); ok {
		r.At = at
	} else {
		r.began()
	}
	r.identifyCLF(line)
	if err := r.request(request); err != nil {
		return err
	}
	r.absolute()
	return nil
}

// absolute takes the host, and whether it was by TLS, from a target that is a whole URL.
func (r *Record) absolute() {
	scheme, rest, ok := bytes.Cut(r.Target, []byte("://"))
	if !ok || bytes.IndexByte(scheme, '/') >= 0 {
		return
	}
	r.TLS = string(scheme) == "https" || string(scheme) == "wss"
	r.Host, r.Target = upToAny(rest, "/?"), originForm(r.Target)
}

func upToAny(b []byte, marks string) []byte {
	if i := bytes.IndexAny(b, marks); i >= 0 {
		return b[:i]
	}
	return b
}

// parseClient reads an address with a port, which follows IPv6 addresses even without brackets.
func parseClient(b []byte) (netip.Addr, bool) {
	colon := bytes.LastIndexByte(b, ':')
	if colon < 0 || len(b) > 0 && b[0] == '[' {
		return parseAddr(b)
	}
	return parseAddr(b[:colon])
}
