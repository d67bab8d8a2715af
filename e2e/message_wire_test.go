package e2e

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
)

// compressed returns text as a writer of that kind makes it.
func compressed(kind, text string) string {
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if kind == "deflate" {
		w, _ = flate.NewWriter(&b, flate.DefaultCompression)
	}
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// TestMessagesHiddenOnTheWire: whatever stands around a message, how it is framed and what its head says of it, the service gets none that is
// spam, and what is not spam in a form that services read.
func TestMessagesHiddenOnTheWire(t *testing.T) {
	t.Parallel()
	book := newGuestbook(t)
	g := configured(t, strings.Replace(routesConfig, "unreadable: quarantine", "unreadable: block", 1), book.URL)
	addr := strings.TrimPrefix(g.url, "http://")
	chunked := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(text), text) }
	length := func(text string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(text)) }
	const typed, te = "Content-Type: " + form + "\r\n", "Transfer-Encoding: chunked\r\n"
	for i, word := range []string{"flowers", "casino"} {
		n := 0
		send := func(name, line, fields, body string, passes bool) {
			t.Helper()
			status := rawly(t, addr, line, fields+"\r\n"+body)
			if bodies, _ := book.take(); (len(bodies) > 0) != (passes && i == 0) {
				t.Errorf("%s, %s: %d, the service got %q", name, word, status, bodies)
			}
		}
		text := func() string { n++; return fmt.Sprintf("words=some+%s+for+%d", word, n) }
		post := func(name string, passes bool, fields, body string) {
			t.Helper()
			send(name, "POST /strict/x", fields+length(body), body, passes)
		}
		s := text()
		post("as it is", true, typed, s)
		send("in a chunk", "POST /strict/x", typed+te, chunked(text()), true)
		s = text()
		send("with trailers", "POST /strict/x", typed+te+"Trailer: Content-Type\r\n", strings.TrimSuffix(chunked(s), "\r\n")+"Content-Type: text/plain\r\n\r\n", true)
		send("with chunk extensions", "POST /strict/x", typed+te, strings.Replace(chunked(text()), "\r\n", ";a=\"b\"\r\n", 1), true)
		s = text()
		send("byte by byte", "POST /strict/x", typed+te, func() (b string) {
			for _, c := range []byte(s) {
				b += fmt.Sprintf("1\r\n%c\r\n", c)
			}
			return b + "0\r\n\r\n"
		}(), true)
		post("gzip", true, typed+"Content-Encoding: GZIP\r\n", compressed("gzip", text()))
		post("gzip in two pieces", true, typed+"Content-Encoding: x-gzip\r\n", compressed("gzip", "words=some+")+compressed("gzip", text()))
		post("deflate without its frame", true, typed+"Content-Encoding: deflate\r\n", compressed("deflate", text()))
		post("a bomb", false, typed+"Content-Encoding: gzip\r\n", compressed("gzip", text()+strings.Repeat("a", 4<<20)))
		for _, encoding := range []string{"br", "zstd", "gzip, gzip", "identity, gzip", "gzip;q=1", "aws-chunked", "utf-8"} {
			post("encoding "+encoding, false, typed+"Content-Encoding: "+encoding+"\r\n", text())
			post("encoding "+encoding+", gzip in truth", false, typed+"Content-Encoding: "+encoding+"\r\n", compressed("gzip", text()))
		}
		post("two encodings", false, typed+"Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", compressed("gzip", text()))
		post("an encoding with an underscore", true, typed+"Content_Encoding: gzip\r\n", compressed("gzip", text()))
		post("gzip that nobody declares", false, typed, compressed("gzip", text()))
		s = text()
		send("gzip as a transfer coding", "POST /strict/x", typed+"Transfer-Encoding: gzip, chunked\r\n", chunked(compressed("gzip", s)), false)
		send("two lengths", "POST /strict/x", typed+"Content-Length: 5\r\n"+length(s), s, false)
		send("a length and chunks", "POST /strict/x", typed+"Content-Length: 5\r\n"+te, chunked(s), false)
		send("more than its length", "POST /strict/x", typed+"Content-Length: 5\r\n", "a=b&c"+s, false)
		post("an upgrade to WebSocket", true, typed+"Upgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n", text())
		post("an upgrade to HTTP/2", true, typed+"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n", text())
		post("an expectation that nobody knows", false, typed+"Expect: 200-ok\r\n", text())
		for _, kind := range []string{"text/plain", "application/xml", "application/json", "multipart/mixed; boundary=B", "x/" + form, `"` + form + `"`, form + ", text/plain", form + "; charset=utf-7", form + "; charset=ibm500", ""} {
			post("type "+kind, false, "Content-Type: "+kind+"\r\n", text())
		}
		post("a type beside another", false, typed+"Content_Type: application/json\r\n", text())
		post("in capitals", true, "Content-Type: "+strings.ToUpper(form)+" ;a=b\r\n", text())
		post("as UTF-16", true, "Content-Type: "+form+"; charset=utf-16le\r\n", "words="+func() (b string) {
			for _, c := range []byte(word) {
				b += string(c) + "%00"
			}
			return b
		}())
		if i == 1 {
			s = text()
			send("a method in small letters", "post /strict/x", typed+length(s), s, false)
			send("a method of the head", "PUT /strict/x", typed+"X-HTTP-Method-Override: POST\r\n"+length(s), s, false)
			send("a method of the query", "GET /strict/x?_method=POST&"+s, "", "", false)
		}
	}
}
