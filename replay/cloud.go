package replay

import "bytes"

// What clouds write as JSON about requests to their edge.

// cloudflare reads the data set http_requests of Cloudflare's Logpush
// (https://developers.cloudflare.com/logs/logpush/logpush-job/datasets/zone/http_requests/).
func (l *jsonLine) cloudflare(r *Record) error {
	if source := l.get("ClientRequestSource"); source != nil && string(source) != "eyeball" {
		return errNoRequest // a Worker's own
	}
	r.Method, r.Target, r.Host = l.get("ClientRequestMethod"), l.get("ClientRequestURI", "ClientRequestPath"),
		l.get("ClientRequestHost")
	r.TLS = string(l.get("ClientRequestScheme")) == "https" ||
		bytes.HasPrefix(l.get("ClientSSLProtocol"), []byte("TLS"))
	r.HTTP10 = string(l.get("ClientRequestProtocol")) == "HTTP/1.0"
	r.JA4 = l.get("JA4")
	r.Answer.Bytes = parseCount(l.get("EdgeResponseBytes"))
	r.Answer.ContentType = l.get("EdgeResponseContentType")
	r.field(nameAgent, l.get("ClientRequestUserAgent"))
	r.field(nameReferer, l.get("ClientRequestReferer"))
	l.headers(r, "RequestHeaders.", '-')
	if err := l.complete(r, "ClientIP", "EdgeResponseStatus", "EdgeStartTimestamp"); err != nil {
		return err
	}
	if at, ok := parseAnyTime(l.get("EdgeEndTimestamp")); ok {
		r.Answer.Took = clampTook(at.Sub(r.At).Seconds())
	}
	return nil
}

// google reads log entries of Google Cloud's load balancers
// (https://cloud.google.com/load-balancing/docs/https/https-logging-monitoring).
func (l *jsonLine) google(r *Record) error {
	r.Method, r.Target = l.get("httpRequest.requestMethod"), l.get("httpRequest.requestUrl")
	r.absolute()
	r.HTTP10 = string(l.get("httpRequest.protocol")) == "HTTP/1.0"
	r.Answer.Bytes = parseCount(l.get("httpRequest.responseSize"))
	r.Answer.Took = clampTook(parseDuration(l.get("httpRequest.latency")))
	r.field(nameAgent, l.get("httpRequest.userAgent"))
	r.field(nameReferer, l.get("httpRequest.referer"))
	return l.complete(r, "httpRequest.remoteIp", "httpRequest.status", "timestamp")
}

// complete reads what every record must have from keys of these names, and says which has it not.
func (l *jsonLine) complete(r *Record, addr, status, time string) error {
	if !isMethod(r.Method) || len(r.Target) == 0 {
		return errNoRequest
	}
	var ok bool
	if r.Addr, ok = parseAddr(l.get(addr)); !ok {
		return badField(addr, l.get(addr))
	}
	if r.At, ok = parseAnyTime(l.get(time)); !ok {
		return badField(time, l.get(time))
	}
	if r.Answer.Status, ok = parseStatus(l.get(status)); !ok {
		return badField(status, l.get(status))
	}
	return nil
}
