package replay

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"antirobot/request"
)

// parseJSON reads a JSON line. Its keys show which server wrote it.
func parseJSON(r *Record, line []byte, f Format) error {
	if !json.Valid(line) {
		// nginx without escape=json writes bytes as \xHH, which is not JSON.
		if !bytes.Contains(line, []byte(`\x`)) {
			return errNotJSON
		}
		line = bytes.ReplaceAll(line, []byte(`\x`), []byte(`\u00`))
		if !json.Valid(line) {
			return errNotJSON
		}
	}
	var l jsonLine
	l.walk(r.reset(line))
	if f == Auto {
		f = l.detect()
	}
	read := l.nginx
	switch f {
	case Traefik:
		read = l.traefik
	case Caddy:
		read = l.caddy
	case Cloudflare:
		read = l.cloudflare
	case Google:
		read = l.google
	case Envoy:
		read = l.envoy
	}
	if err := read(r); err != nil {
		return err
	}
	l.identify(r)
	return nil
}

func (l *jsonLine) detect() Format {
	switch {
	case l.has("DownstreamStatus") || l.has("ClientHost"):
		return Traefik
	case l.has("request.uri") || l.has("request.remote_ip"):
		return Caddy
	case l.has("ClientRequestMethod") || l.has("EdgeResponseStatus"):
		return Cloudflare
	case l.has("httpRequest.requestMethod"):
		return Google
	case l.has("response_code") && l.has("start_time"):
		return Envoy
	}
	return Nginx
}

// maxJSONValues bounds how many values within others are examined, such as headers, which a visitor sends as many of as
// it likes; names of two levels are joined by a dot.
const maxJSONValues = 256

type jsonValue struct{ key, text []byte }

// jsonLine holds the scalars of a JSON object, flattened: {"request":{"uri":"/"}} has request.uri. Of an array, the
// first scalar counts.
type jsonLine struct {
	values []jsonValue
	within int // values of these that are not of the first level
	prefix []byte
}

// walk flattens valid JSON. It borrows from b.
func (l *jsonLine) walk(b []byte) {
	l.values = make([]jsonValue, 0, 48)
	l.object(b, 0)
}

const maxJSONDepth = 4

// object reads a value that begins with { and returns what follows it.
func (l *jsonLine) object(b []byte, depth int) []byte {
	b = skipSpace(b[1:])
	for len(b) > 0 && b[0] != '}' {
		var key []byte
		key, b = jsonString(b)
		b = skipSpace(skipSpace(b)[1:]) // the colon
		mark := len(l.prefix)
		if mark > 0 {
			l.prefix = append(l.prefix, '.')
		}
		l.prefix = append(l.prefix, key...)
		b = skipSpace(l.value(b, depth))
		l.prefix = l.prefix[:mark]
		if len(b) > 0 && b[0] == ',' {
			b = skipSpace(b[1:])
		}
	}
	return b[1:]
}

func (l *jsonLine) value(b []byte, depth int) []byte {
	switch b[0] {
	case '{':
		if depth >= maxJSONDepth {
			return skipValue(b)
		}
		return l.object(b, depth+1)
	case '[':
		rest := skipValue(b)
		if first := skipSpace(b[1:]); first[0] != ']' && first[0] != '{' && first[0] != '[' {
			l.value(first, depth)
		}
		return rest
	case '"':
		text, rest := jsonString(b)
		l.add(text, depth)
		return rest
	}
	n := 0
	for n < len(b) && b[n] != ',' && b[n] != '}' && b[n] != ']' && b[n] > ' ' {
		n++
	}
	if b[0] != 'n' { // null
		l.add(b[:n], depth)
	}
	return b[n:]
}

func (l *jsonLine) add(text []byte, depth int) {
	if depth > 0 {
		if l.within == maxJSONValues {
			return
		}
		l.within++
	}
	l.values = append(l.values, jsonValue{key: append([]byte(nil), l.prefix...), text: text})
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

func jsonString(b []byte) (text, rest []byte) {
	escaped := false
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			if !escaped {
				return b[1:i], b[i+1:]
			}
			var s string
			if json.Unmarshal(b[:i+1], &s) != nil {
				return nil, b[i+1:]
			}
			return []byte(s), b[i+1:]
		}
	}
	return nil, nil
}

// skipValue returns what follows a valid object or array.
func skipValue(b []byte) []byte {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return b[i+1:]
			}
		case '"':
			_, rest := jsonString(b[i:])
			i = len(b) - len(rest) - 1
		}
	}
	return nil
}

func (l *jsonLine) has(key string) bool { return l.get(key) != nil }

// get returns the first value that is present and not "-"; nil if there is none.
func (l *jsonLine) get(keys ...string) []byte {
	for _, k := range keys {
		for i := range l.values {
			if v := &l.values[i]; string(v.key) == k && !isDash(v.text) {
				return v.text
			}
		}
	}
	return nil
}

// headers takes every value whose key begins with prefix as a header field; under is what the names use instead of a
// hyphen.
func (l *jsonLine) headers(r *Record, prefix string, under byte) {
	for i := range l.values {
		v := &l.values[i]
		name, ok := bytes.CutPrefix(v.key, []byte(prefix))
		if !ok || isDash(v.text) || request.EqualFold(name, nameHost) {
			continue
		}
		if under != '-' {
			for k := range name { // a copy of ours
				if name[k] == under {
					name[k] = '-'
				}
			}
		}
		r.field(name, v.text)
	}
}

// finish checks what every record must have.
func (r *Record) finish(addr, at, status []byte) error {
	if len(r.Method) == 0 || len(r.Target) == 0 {
		return errNoRequest
	}
	var ok bool
	if r.Addr, ok = parseAddr(addr); !ok {
		return errNoAddress
	}
	if r.At, ok = parseAnyTime(at); !ok {
		return errTime
	}
	if r.Answer.Status, ok = parseStatus(status); !ok {
		return errStatus
	}
	return nil
}

// began sets the time of a request to its beginning, for logs that write the time of its end.
func (r *Record) began() { r.At = r.At.Add(-r.Answer.Took) }

func (l *jsonLine) traefik(r *Record) error {
	r.Method, r.Target, r.Host = l.get("RequestMethod"), l.get("RequestPath"), l.get("RequestHost", "RequestAddr")
	r.User = l.get("ClientUsername")
	r.TLS = string(l.get("RequestScheme")) == "https"
	r.HTTP10 = string(l.get("RequestProtocol")) == "HTTP/1.0"
	r.Answer.Bytes = parseCount(l.get("DownstreamContentSize"))
	r.Answer.Took = clampTook(parseFloat(l.get("Duration")) / float64(time.Second))
	r.Answer.ContentType = l.get("downstream_Content-Type", "origin_Content-Type")
	l.headers(r, "request_", '-')
	err := r.finish(l.get("ClientHost", "ClientAddr"), l.get("StartUTC", "StartLocal", "time"),
		l.get("DownstreamStatus", "OriginStatus"))
	if err == nil && !l.has("StartUTC") && !l.has("StartLocal") {
		r.began()
	}
	return err
}

func (l *jsonLine) caddy(r *Record) error {
	r.Method, r.Target, r.Host = l.get("request.method"), l.get("request.uri"), l.get("request.host")
	r.User = l.get("user_id")
	r.TLS = l.has("request.tls.version") || l.has("request.tls.cipher_suite")
	r.HTTP10 = string(l.get("request.proto")) == "HTTP/1.0"
	r.Answer.Bytes = parseCount(l.get("size"))
	r.Answer.Took = clampTook(parseDuration(l.get("duration")))
	r.Answer.ContentType = l.get("resp_headers.Content-Type")
	l.headers(r, "request.headers.", '-')
	err := r.finish(l.get("request.client_ip", "request.remote_ip", "request.remote_addr"), l.get("ts", "time"),
		l.get("status"))
	if err == nil {
		r.began()
	}
	return err
}

// nginx reads JSON whose names are nginx variables, or common names for the same things, including those of the
// gateway's own access log.
func (l *jsonLine) nginx(r *Record) error {
	if m := l.get("message", "msg"); m != nil && string(m) != "request" && !l.has("status") {
		return errNoRequest
	}
	if request := l.get("request"); request != nil {
		if err := r.request(request); err != nil {
			return err
		}
	} else {
		r.Method, r.Target = l.get("request_method", "method"), l.get("request_uri", "uri", "path", "url")
		if args := l.get("args", "query_string", "query_hash"); args != nil && bytes.IndexByte(r.Target, '?') < 0 {
			r.Target = append(append(append([]byte(nil), r.Target...), '?'), args...)
		}
		r.HTTP10 = string(l.get("server_protocol", "protocol")) == "HTTP/1.0"
	}
	if len(r.Method) > 0 && !isMethod(r.Method) {
		return errNoRequest
	}
	r.Host = l.get("http_host", "host", "server_name", "vhost")
	r.User = l.get("remote_user", "user", "auth")
	r.TLS = string(l.get("scheme")) == "https" || string(l.get("https")) == "on" || l.has("ssl_protocol")
	r.Answer.Bytes = parseCount(l.get("body_bytes_sent", "bytes_sent", "bytes_out", "bytes", "size"))
	r.Answer.Took = clampTook(parseFloat(l.get("request_time")))
	if ms := l.get("ms"); ms != nil {
		r.Answer.Took = clampTook(parseFloat(ms) / 1000)
	}
	r.Answer.ContentType = l.get("sent_http_content_type", "content_type")
	r.asks, r.said = request.ParseKind(l.get("asks"))
	r.JA4, r.Frames = l.get("ja4", "http_ssl_ja4", "ssl_ja4"), l.get("h2", "http2_fingerprint")
	r.Behind = clampTook(parseFloat(l.get("behind_ms")) / 1000)
	r.field(nameAgent, l.get("http_user_agent", "user_agent", "agent"))
	r.field(nameReferer, l.get("http_referer", "http_referrer", "referer", "referrer"))
	l.headers(r, "http_", '_')
	err := r.finish(l.get("remote_addr", "client", "client_ip", "remote_ip", "ip"),
		l.get("msec", "time_iso8601", "@timestamp", "timestamp", "time_local", "time", "ts"), l.get("status"))
	if err == nil {
		r.began()
	}
	return err
}

func parseCount(b []byte) uint64 {
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func parseFloat(b []byte) float64 {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// parseDuration reads seconds, or a text such as 1.5ms.
func parseDuration(b []byte) float64 {
	if d, err := time.ParseDuration(string(b)); err == nil {
		return d.Seconds()
	}
	return parseFloat(b)
}

// clampTook converts seconds to a duration, at least zero and at most a day.
func clampTook(seconds float64) time.Duration {
	return time.Duration(min(max(seconds, 0), 86400) * float64(time.Second))
}

var timeLayouts = [...]string{
	time.RFC3339Nano, "2006/01/02 15:04:05.000", "2006/01/02 15:04:05",
	"2006-01-02 15:04:05.000", "2006-01-02 15:04:05",
}

// parseAnyTime reads unix seconds with or without a fraction, unix milliseconds and nanoseconds, ISO times and those of
// common logs. Times without a zone are UTC.
func parseAnyTime(b []byte) (time.Time, bool) {
	if t, ok := parseCLFTime(b); ok {
		return t, true
	}
	if len(b) == 0 || len(b) > 40 {
		return time.Time{}, false
	}
	if f, err := strconv.ParseFloat(string(b), 64); err == nil {
		switch {
		case f > 1e16: // nanoseconds
			f /= 1e9
		case f > 1e11: // milliseconds
			f /= 1e3
		}
		if !(f > 0 && f < 253402300800) { // the year 9999
			return time.Time{}, false
		}
		whole, part := math.Modf(f)
		return time.Unix(int64(whole), int64(math.Round(part*1e6))*1000).UTC(), true
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, string(b)); err == nil && t.Year() >= 1970 {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
