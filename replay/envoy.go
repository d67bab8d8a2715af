package replay

import (
	"bytes"
	"errors"
)

// isEnvoy reports whether a line begins as Envoy's text does.
func isEnvoy(line []byte) bool { return len(line) > 0 && line[0] == '[' && shaped(line[1:], isoShape) }

// parseEnvoy reads Envoy's default access log
// (https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage):
//
//	[2026-03-02T07:15:30.250Z] "GET /a?b HTTP/1.1" 200 - 0 5120 250 249 "203.0.113.7" "curl/8.5.0" "request id" "shop.example" "10.0.0.1:80"
//
// and Istio's (https://istio.io/latest/docs/tasks/observability/logs/access-log/), which says why between the flags and
// the bytes, and adds addresses:
//
//	… 200 - via_upstream - "-" 0 5120 250 249 "203.0.113.7" … "10.0.0.1:80" cluster 10.0.0.2:50000 10.0.0.2:8080 203.0.113.7:40000 - default
func parseEnvoy(r *Record, line []byte) error {
	rest := r.reset(line)
	if len(rest) == 0 || rest[0] != '[' {
		return errTime
	}
	at, rest, _ := bytes.Cut(rest[1:], []byte("] "))
	var ok bool
	if r.At, ok = parseAnyTime(at); !ok {
		return badField("%START_TIME%", at)
	}
	request, rest, ok := unescaped(rest)
	if !ok {
		return badField("request in quotes", nil)
	}
	code, rest := word(rest)
	if r.Answer.Status, ok = parseStatus(code); !ok {
		return badField("%RESPONSE_CODE%", code)
	}
	_, rest = word(rest) // %RESPONSE_FLAGS%
	if next, _ := word(rest); !isNumber(next) {
		for len(rest) > 0 && rest[0] != '"' { // Istio's details, in which there may be spaces
			_, rest = word(rest)
		}
		_, rest, _ = unescaped(rest)
	}
	var numbers [4][]byte // bytes received and sent, duration, time of the upstream
	for i := range numbers {
		numbers[i], rest = word(rest)
	}
	if !isNumber(numbers[1]) || !isNumber(numbers[2]) {
		return badField("%BYTES_SENT% or %DURATION%", bytes.Join(numbers[1:3], []byte{' '}))
	}
	r.Answer.Bytes, r.Answer.Took = parseCount(numbers[1]), clampTook(parseFloat(numbers[2])/1000)
	if err := r.envoyClient(rest, line); err != nil {
		return err
	}
	return r.request(request)
}

// envoyTexts are the columns in quotes behind the numbers.
var envoyTexts = [...]string{"X-FORWARDED-FOR", "USER-AGENT", "X-REQUEST-ID", ":AUTHORITY", "UPSTREAM_HOST"}

var errQuotesWithin = errors.New("has a quote within what the visitor sent, so that its address is not known")

// envoyClient reads the columns in quotes behind the numbers, and Istio's addresses behind them, which say who asked.
// Quotes within the first three are not marked, and what they hold may look like any columns: where there are more than
// five, only what stands at the end is believed.
func (r *Record) envoyClient(rest, line []byte) error {
	end := bytes.LastIndexByte(rest, '"')
	if end <= 0 || rest[0] != '"' {
		return badField("%"+envoyTexts[0]+"% in quotes", nil)
	}
	const between = `" "`
	whole := rest[1:end]
	texts := bytes.Split(whole, []byte(between))
	more := len(texts) - len(envoyTexts)
	if more < 0 {
		return badField("%"+envoyTexts[len(texts)]+"% in quotes", nil)
	}
	last := texts[len(texts)-3:]
	agent := whole[len(texts[0])+len(between) : len(whole)-len(last[0])-len(last[1])-len(last[2])-3*len(between)]
	if !isDash(agent) {
		r.field(nameAgent, agent)
	}
	if !isDash(last[1]) {
		r.Host = last[1]
	}
	rest = bytes.TrimLeft(rest[end+1:], " ")
	for range 3 { // the cluster, then three addresses
		_, rest = word(rest)
	}
	remote, _ := word(rest)
	r.Addr, _ = parseAddr(remote)
	if more > 0 {
		if !public(r.Addr) {
			return errQuotesWithin
		}
		return nil
	}
	r.forwarded(texts[0])
	r.identifyCLF(line)
	switch {
	case r.Addr.IsValid():
	case len(r.Who) > 0:
		r.setApart()
	default: // the line names no client
		r.Addr, r.named = standIn(nil, nil, r.Agent()), true
	}
	return nil
}

// unescaped returns the text between quotes, within which quotes are not marked, and what follows it.
func unescaped(b []byte) (text, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != '"' {
		return nil, nil, false
	}
	if end := bytes.Index(b[1:], []byte(`" `)); end >= 0 {
		return b[1 : end+1], b[end+3:], true
	}
	return b[1 : len(b)-1], nil, b[len(b)-1] == '"'
}

func isNumber(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

// envoy reads the JSON of Istio and of Envoy Gateway, whose keys are named as the fields, with "_" or "-".
func (l *jsonLine) envoy(r *Record) error {
	r.Method, r.Target = l.get("method"), l.get("path", "x-envoy-origin-path")
	r.Host = l.get("authority", ":authority")
	r.TLS = l.has("requested_server_name") && !bytes.HasPrefix(l.get("requested_server_name"), []byte("outbound")) ||
		l.has("downstream_tls_version")
	r.HTTP10 = string(l.get("protocol")) == "HTTP/1.0"
	r.Answer.Bytes = parseCount(l.get("bytes_sent"))
	r.Answer.Took = clampTook(parseFloat(l.get("duration")) / 1000)
	r.Answer.ContentType = l.get("content_type", "content-type")
	r.field(nameAgent, l.get("user_agent", "user-agent"))
	r.field(nameReferer, l.get("referer"))
	err := l.complete(r, "downstream_remote_address", "response_code", "start_time")
	if err == nil {
		r.forwarded(l.get("x_forwarded_for", "x-forwarded-for"))
	}
	return err
}
