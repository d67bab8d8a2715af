package blackbox

import (
	"fmt"
	"slices"
	"strings"
)

func headerCases() []Case {
	var out []Case
	add := func(cat, name, send string, check Check) {
		out = append(out, Case{Cat: cat, Name: name, Send: send, Check: check})
	}
	should := func(cat, name, send string, check Check) {
		out = append(out, Case{Cat: cat, Name: name, Send: send, Check: check, Should: true})
	}

	// Request headers keep their bytes.
	add("headers", "case of names kept", get("/a", "x-lower: 1", "X-UPPER: 2", "X-mIxEd: 3"), forwarded(func(x *X, q *Req) {
		for _, want := range []string{"x-lower: 1", "X-UPPER: 2", "X-mIxEd: 3"} {
			if !strings.Contains(q.Head, "\r\n"+want+"\r\n") {
				x.Errorf("%q is not in %q", want, clip(q.Head))
			}
		}
	}))
	add("headers", "order and duplicates kept", get("/a", "X-A: 1", "X-B: 2", "X-A: 3", "X-C: 4", "X-A: 5"), forwarded(field("X-A", "1", "3", "5"), func(x *X, q *Req) {
		var order []string
		for _, f := range q.Fields {
			if strings.HasPrefix(f.Name, "X-A") || f.Name == "X-B" || f.Name == "X-C" {
				order = append(order, f.Name+f.Value)
			}
		}
		if !slices.Equal(order, []string{"X-A1", "X-B2", "X-A3", "X-C4", "X-A5"}) {
			x.Errorf("order %q", order)
		}
	}))
	for _, v := range []struct{ name, value string }{
		{"tab inside", "a\tb"},
		{"several spaces inside", "a   b"},
		{"high bytes", "\xe4\xf6\xfc"},
		{"UTF-8", "\u043f\u0440\u0438\u0432\u0435\u0442"},
		{"punctuation", `!"#$%&'()*+,-./:;<=>?@[\]^_{|}~` + "`"},
		{"colons", "a:b: c"},
		{"empty", ""},
		{"looks like a field", "X-B: c"},
		{"percent CRLF", "a%0d%0aX-B: c"},
		{"quoted string", `"a\"b"`},
	} {
		add("headers", "value "+v.name, get("/a", "X-A: "+v.value), forwarded(field("X-A", v.value)))
	}
	add("headers", "name of all token characters", get("/a", "X!#$%&'*+-.^`|~09aZ: v"), refusedOr(forwarded(field("X!#$%&'*+-.^`|~09aZ", "v"))))
	add("headers", "name of one letter", get("/a", "a: v"), forwarded(field("a", "v")))
	should("headers", "underscore name that means nothing", get("/a", "my_field: v"), forwarded(field("my_field", "v")))
	add("headers", "cookies kept apart and whole", get("/a", "Cookie: a=1; b=\"x y\"; c=", "Cookie: d=4"), forwarded(func(x *X, q *Req) {
		if got := strings.ReplaceAll(strings.Join(q.Fields.All("Cookie"), "; "), ",", ";"); got != `a=1; b="x y"; c=; d=4` {
			x.Errorf("cookies %q", q.Fields.All("Cookie"))
		}
	}))
	add("headers", "authorization kept", get("/a", "Authorization: Basic dTpw"), forwarded(field("Authorization", "Basic dTpw")))
	add("headers", "range and conditions kept", get("/a", "Range: bytes=0-4", `If-None-Match: "x"`, "If-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT", "If-Range: \"y\""),
		forwarded(field("Range", "bytes=0-4"), field("If-None-Match", `"x"`), field("If-Modified-Since", "Sat, 29 Oct 1994 19:43:31 GMT"), field("If-Range", `"y"`)))
	for _, n := range []string{"User-Agent", "Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "Referer", "Origin", "Cache-Control", "Pragma", "Cookie"} {
		add("headers", "nothing invented: "+n, get("/a"), forwarded(noField(n)))
	}
	add("headers", "Content-Type not invented for POST", post("/a", "hello", "Content-Length: 5"), forwarded(noField("Content-Type")))
	add("headers", "Accept-Encoding kept as sent", get("/a", "Accept-Encoding: br;q=1.0, gzip;q=0.8, *;q=0.1"), forwarded(field("Accept-Encoding", "br;q=1.0, gzip;q=0.8, *;q=0.1")))
	add("headers", "Content-Type kept as sent", post("/a", "hello", "content-type: Multipart/Form-Data; Boundary=xYz", "Content-Length: 5"), forwarded(field("Content-Type", "Multipart/Form-Data; Boundary=xYz")))
	add("headers", "multipart bytes untouched", newRequest("POST", "/a", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--\r\nepilogue", "Content-Type: multipart/form-data; boundary=x"),
		one("--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--\r\nepilogue"))
	add("headers", "form bytes untouched", newRequest("POST", "/a", "b=2&a=1&a=%20+&&=", "Content-Type: application/x-www-form-urlencoded"), one("b=2&a=1&a=%20+&&="))

	// Sizes.
	for _, n := range []int{4 << 10, 8 << 10, 16 << 10, 32 << 10} {
		v := strings.Repeat("v", n)
		add("limits", fmt.Sprintf("request field of %d KiB", n>>10), get("/a", "X-A: "+v), forwarded(field("X-A", v)))
		out = append(out, Case{
			Cat: "limits", Name: fmt.Sprintf("answer field of %d KiB", n>>10), Send: get("/a"),
			Services: []Script{Answer(response("200 OK", "ok", "X-A: "+v))}, Check: answered(200, got("X-A", v), body("ok")),
		})
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("X-N%d: %d", i, i))
	}
	add("limits", "100 request fields", get("/a", many...), forwarded(func(x *X, q *Req) {
		for i := range 100 {
			field(fmt.Sprint("X-N", i), fmt.Sprint(i))(x, q)
		}
	}))
	out = append(out, Case{
		Cat: "limits", Name: "100 answer fields", Send: get("/a"), Services: []Script{Answer(response("200 OK", "ok", many...))},
		Check: answered(200, got("X-N0", "0"), got("X-N99", "99")),
	})
	add("limits", "request head of 2 MiB", get("/a", "X-A: "+strings.Repeat("v", 2<<20)), refused(431, 400, 413))
	add("limits", "100 000 request fields", get("/a", slices.Repeat([]string{"X-A: b"}, 100_000)...), refused(431, 400, 413))
	add("limits", "cookie of 16 KiB", get("/a", "Cookie: a="+strings.Repeat("c", 16<<10)), forwarded(field("Cookie", "a="+strings.Repeat("c", 16<<10))))

	// Hop by hop, request.
	add("hop-by-hop", "nominated field", get("/a", "Connection: X-Foo", "X-Foo: 1", "X-Bar: 2"), forwarded(noField("X-Foo"), field("X-Bar", "2")))
	add("hop-by-hop", "nominated in a list", get("/a", "Connection: keep-alive , x-foo,X-BAR", "X-Foo: 1", "X-Bar: 2", "X-Baz: 3"), forwarded(noField("X-Foo", "X-Bar"), field("X-Baz", "3")))
	add("hop-by-hop", "nominated in the second Connection", get("/a", "Connection: keep-alive", "Connection: X-Foo", "X-Foo: 1"), forwarded(noField("X-Foo")))
	add("hop-by-hop", "nominated before Connection", get("/a", "X-Foo: 1", "Connection: X-Foo"), forwarded(noField("X-Foo")))
	add("hop-by-hop", "Keep-Alive", get("/a", "Connection: keep-alive", "Keep-Alive: timeout=5"), forwarded(noField("Keep-Alive")))
	add("hop-by-hop", "Keep-Alive without Connection", get("/a", "Keep-Alive: timeout=5"), forwarded(noField("Keep-Alive")))
	add("hop-by-hop", "Proxy-Connection", get("/a", "Proxy-Connection: keep-alive"), forwarded(noField("Proxy-Connection")))
	add("hop-by-hop", "TE gzip", get("/a", "TE: gzip, deflate;q=0.5", "Connection: TE"), forwarded(func(x *X, q *Req) {
		if v := q.Fields.Get("TE"); strings.Contains(v, "gzip") || strings.Contains(v, "deflate") {
			x.Errorf("TE reached the service: %q", v)
		}
	}))
	add("hop-by-hop", "TE trailers may pass, nothing else", get("/a", "TE: trailers, gzip", "Connection: TE"), forwarded(func(x *X, q *Req) {
		if v := q.Fields.Get("TE"); v != "" && v != "trailers" {
			x.Errorf("TE reached the service: %q", v)
		}
	}))
	add("hop-by-hop", "Upgrade without Connection", get("/a", "Upgrade: websocket"), forwarded(noField("Upgrade")))
	should("hop-by-hop", "close is not passed on", get("/a", "Connection: close"), forwarded(func(x *X, q *Req) {
		if strings.Contains(strings.ToLower(q.Fields.Get("Connection")), "close") {
			x.Errorf("the client's close reached the service")
		}
	}))
	add("hop-by-hop", "empty elements in Connection", get("/a", "Connection: ,, X-Foo ,,", "X-Foo: 1"), refusedOr(forwarded(noField("X-Foo"))))
	add("hop-by-hop", "Connection of 1000 names", get("/a", "Connection: "+strings.Repeat("x-foo, ", 1000)+"x-foo", "X-Foo: 1"), refusedOr(forwarded(noField("X-Foo"))))
	for _, n := range []string{"Host", "Content-Length", "Transfer-Encoding", "X-Forwarded-For", "X-Real-IP", "X-Request-Id", "X-Forwarded-Proto"} {
		send := newRequest("POST", "/a", "hello", "Connection: "+n)
		add("hop-by-hop", "nomination of "+n, send, refusedOr(forwarded(func(x *X, q *Req) {
			if q.Body != "hello" {
				x.Errorf("the body became %q", q.Body)
			}
			if (n == "X-Forwarded-For" || n == "X-Real-IP" || n == "X-Request-Id") && !q.Fields.Has(n) {
				x.Errorf("the proxy's own %s was taken away by a client", n)
			}
		})))
	}
	for _, n := range []string{"Cookie", "Authorization", "Cache-Control"} {
		add("hop-by-hop", "nomination of "+n, get("/a", "Connection: "+n, n+": v"), refusedOr(forwarded()))
	}

	// Hop by hop, answer.
	answer := func(name, reply string, check Check) {
		out = append(out, Case{Cat: "hop-by-hop", Name: "answer: " + name, Send: get("/a"), Services: []Script{Answer(reply)}, Check: check})
	}
	answer("nominated field", response("200 OK", "ok", "Connection: X-Foo", "X-Foo: 1", "X-Bar: 2"), answered(200, got("X-Foo"), got("X-Bar", "2")))
	answer("Keep-Alive", response("200 OK", "ok", "Keep-Alive: timeout=5", "Connection: keep-alive"), answered(200, func(x *X, p *Resp) {
		if strings.Contains(p.Fields.Get("Keep-Alive"), "timeout=5") {
			x.Errorf("Keep-Alive of the service reached the client")
		}
	}))
	answer("Proxy-Connection", response("200 OK", "ok", "Proxy-Connection: keep-alive"), answered(200, got("Proxy-Connection")))
	answer("Upgrade offer", response("200 OK", "ok", "Upgrade: h2,h2c", "Connection: Upgrade"), answered(200, got("Upgrade")))
	out = append(out, Case{
		Cat: "hop-by-hop", Name: "answer: close of the service is not the client's", Should: true, Send: get("/a"),
		Services: []Script{AnswerAndEnd(response("200 OK", "ok", "Connection: close")), ok},
		Check: func(x *X, c *Client) {
			answered(200, body("ok"))(x, c)
			c.MustLive()
		},
	})

	// Who the client says it is.
	spoof := func(name string, fields ...string) {
		add("spoofing", name, get("/a", fields...), refusedOr(forwarded(func(x *X, q *Req) {
			for _, bad := range []string{"6.6.6.6", "evil.test", "spoofed"} {
				if strings.Contains(q.Head, bad) {
					x.Errorf("what the client claimed reached the service: %q", clip(q.Head))
				}
			}
		})))
	}
	spoof("X-Forwarded-For", "X-Forwarded-For: 6.6.6.6")
	spoof("X-Forwarded-For twice", "X-Forwarded-For: 6.6.6.6", "x-forwarded-for: 6.6.6.6, 127.0.0.1")
	spoof("X-Forwarded-For lower case", "x-forwarded-for: 6.6.6.6")
	spoof("X_Forwarded_For", "X_Forwarded_For: 6.6.6.6")
	spoof("X-Forwarded_For", "X-Forwarded_For: 6.6.6.6")
	spoof("X-Real-IP", "X-Real-IP: 6.6.6.6")
	spoof("X_Real_IP", "X_Real_IP: 6.6.6.6")
	spoof("Forwarded", "Forwarded: for=6.6.6.6;host=evil.test;proto=https")
	spoof("X-Forwarded-Host", "X-Forwarded-Host: evil.test")
	spoof("X-Forwarded-Proto", "X-Forwarded-Proto: spoofed")
	spoof("X-Forwarded-Port", "X-Forwarded-Port: spoofed")
	spoof("X-Request-Id", "X-Request-Id: spoofed")
	spoof("X-Antirobot-Verdict", "X-Antirobot-Verdict: spoofed")
	for _, n := range []string{"X-Forwarded-Server", "X-Original-URI", "X-Original-URL", "X-Rewrite-URL", "X-Accel-Redirect", "X-Client-IP", "X-Forwarded-Prefix", "X-Forwarded-Ssl"} {
		should := n != "X-Original-URI" && n != "X-Accel-Redirect"
		spoof(n, n+": spoofed")
		out[len(out)-1].Should = should
	}
	add("spoofing", "the proxy says who the client is", get("/a"), forwarded(field("X-Real-IP", "127.0.0.1"), func(x *X, q *Req) {
		if v := q.Fields.Get("X-Forwarded-For"); v != "127.0.0.1" {
			x.Errorf("X-Forwarded-For %q", v)
		}
		if len(q.Fields.All("X-Forwarded-For")) != 1 || len(q.Fields.All("X-Request-Id")) != 1 {
			x.Errorf("X-Forwarded-For or X-Request-Id is missing or double: %q", clip(q.Head))
		}
	}))
	add("spoofing", "X-Forwarded-Proto says http", get("/a"), forwarded(field("X-Forwarded-Proto", "http")))
	out = append(out, Case{Cat: "spoofing", Name: "X-Request-Id differs between requests", Run: func(x *X) {
		c := x.Dial()
		for range 2 {
			c.Send(get("/a"))
			c.Get()
		}
		s := x.Seen()
		if a, b := s[0].Fields.Get("X-Request-Id"), s[1].Fields.Get("X-Request-Id"); a == "" || a == b {
			x.Errorf("%q and %q", a, b)
		}
	}})
	return out
}
