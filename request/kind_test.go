package request

import (
	"strings"
	"testing"
)

// asked makes a View from "METHOD /path" and header fields by pairs.
func asked(line string, header ...string) *View {
	method, path, _ := strings.Cut(line, " ")
	v := &View{Method: []byte(method), Host: []byte("a.example"), Target: []byte(path), Path: []byte(path)}
	for i := 0; i+1 < len(header); i += 2 {
		v.Fields = append(v.Fields, Field{Name: []byte(header[i]), Value: []byte(header[i+1])})
	}
	return v
}

func TestKind(t *testing.T) {
	f := func(want Kind, line string, header ...string) {
		t.Helper()
		if got := asked(line, header...).Kind(); got != want {
			t.Errorf("%s %q: %v, wanted %v", line, header, got, want)
		}
	}
	fetch := func(dest, mode string, more ...string) []string {
		return append([]string{"Sec-Fetch-Dest", dest, "Sec-Fetch-Mode", mode}, more...)
	}
	const form, json = "application/x-www-form-urlencoded", "application/json"

	// by what a browser says
	f(KindPage, "GET /", fetch("document", "navigate", "Accept", browserAccept)...)
	f(KindPage, "GET /a.css", fetch("document", "navigate")...) // somebody looks at the source
	f(KindPage, "GET /feed", fetch("document", "navigate")...)
	f(KindPage, "GET /", fetch("iframe", "navigate")...)
	f(KindFile, "GET /price.PDF", fetch("document", "navigate")...)
	f(KindFile, "GET /export", fetch("empty", "navigate")...)
	f(KindForm, "POST /", fetch("document", "navigate", "Content-Type", form)...)
	f(KindScript, "GET /", fetch("empty", "cors", "Accept", "*/*")...)
	f(KindScript, "POST /", fetch("empty", "same-origin", "Content-Type", form)...)
	f(KindScript, "GET /", fetch("empty", "no-cors", "Accept", json)...)
	f(KindPart, "GET /a.png", fetch("image", "no-cors", "X-Requested-With", "xmlhttprequest")...)
	f(KindPart, "POST /beacon", fetch("empty", "no-cors")...)
	f(KindPart, "GET /x", fetch("image", "no-cors")...)
	f(KindPart, "GET /x", "Sec-Fetch-Dest", "font")
	f(KindSocket, "GET /x", fetch("websocket", "websocket")...)
	f(KindSocket, "GET /x", fetch("empty", "websocket")...)
	f(KindPreflight, "OPTIONS /x", "Origin", "https://o.example", "Access-Control-Request-Method", "PUT")

	// what contradicts itself is a page
	f(KindPage, "GET /x", fetch("image", "navigate")...)
	f(KindPage, "GET /x", "Sec-Fetch-Mode", "navigate")
	f(KindPage, "GET /product/1", "Sec-Fetch-Mode", "cors")
	f(KindPage, "GET /x", "Origin", "https://o.example", "Access-Control-Request-Method", "PUT")

	// by what the rest says
	f(KindPage, "GET /")
	f(KindPage, "GET /", "Accept", browserAccept)
	f(KindPage, "GET /a.png", "Accept", browserAccept)
	f(KindPart, "GET /a.png", "Accept", "image/*,*/*;q=0.8")
	f(KindPart, "GET /a.css")
	f(KindPart, "GET /live/radio.m3u8")
	f(KindPart, "GET /live/seg12.ts", "Accept", "*/*")
	f(KindPart, "GET /film/7.M4S")
	f(KindPage, "GET /product/1;.css") // for a service that drops parameters
	f(KindPage, "GET /product/1%3b.css")
	f(KindPart, "GET /%61.css")
	f(KindSocket, "GET /x", "Upgrade", "WebSocket")
	f(KindForm, "POST /", "Content-Type", "Multipart/Form-Data; boundary=x")
	f(KindPage, "POST /", "Content-Type", "application/octet-stream")
	f(KindFeed, "GET /news.rss")
	f(KindFeed, "GET /blog/atom.xml", "Accept", "*/*")
	f(KindFeed, "GET /feed.json")
	f(KindFeed, "GET /robots.txt", "Accept", "*/*")
	f(KindFeed, "GET /sitemap-2.xml")
	f(KindFile, "GET /a.zip")
	f(KindAPI, "GET /", "Accept", json)
	f(KindAPI, "GET /a.css", "Accept", json)
	f(KindAPI, "DELETE /thing")
	f(KindAPI, "POST /", "Content-Type", "application/vnd.api+json; charset=utf-8")
	f(KindScript, "GET /", "Accept", json+", text/plain, */*", "Referer", "http://a.example/")
	f(KindScript, "POST /", "Content-Type", json, "Origin", "http://a.example")
	f(KindScript, "GET /", "X-Requested-With", "XMLHttpRequest", "Referer", "https://a.example:8443/x")
	f(KindAPI, "GET /", "X-Requested-With", "XMLHttpRequest")
	f(KindAPI, "GET /", "X-Requested-With", "XMLHttpRequest", "Referer", "https://a.example.evil.test/x")
	f(KindPage, "GET /", "Accept", json+";q=0.9, text/plain")
}

// TestKindNamesAll: no kind is printed as unknown.
func TestKindNamesAll(t *testing.T) {
	seen := map[string]bool{}
	for k := KindPage; k <= KindPreflight; k++ {
		if name := k.String(); name == "unknown" || seen[name] {
			t.Errorf("kind %d: %q", k, name)
		}
		seen[k.String()] = true
	}
	if (KindPreflight + 1).String() != "unknown" {
		t.Error("a kind without a name, or a name without a kind")
	}
}

func FuzzKind(f *testing.F) {
	f.Add("GET", "/a.css", "image", "no-cors", browserAccept, "")
	f.Add("POST", "/a;.css", "", "", "application/json", "application/json")
	f.Fuzz(func(t *testing.T, method, path, dest, mode, accept, content string) {
		v := asked(method+" "+path, "Sec-Fetch-Dest", dest, "Sec-Fetch-Mode", mode, "Accept", accept, "Content-Type",
			content)
		k := v.Kind()
		if k.String() == "unknown" {
			t.Fatalf("%d", k)
		}
		if mode == "navigate" && (k == KindPart || k == KindSocket) && dest != "object" && dest != "embed" {
			t.Fatalf("a navigation is a %v", k)
		}
	})
}

func TestReadingAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	v := asked("POST /a;x/b.html", "Host", "Example.org:80", "Accept", browserAccept, "Content-Type",
		"application/x-www-form-urlencoded", "Cookie", "a=1; b=2")
	host := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		_ = v.Kind()
		_ = v.Accept()
		_, _ = v.Cookie("b")
		host, _ = AppendHostName(host[:0], v.Fields[0].Value)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
