package proxy

import (
	"strings"
	"testing"
	"time"

	"antirobot/request"
	"antirobot/verdict"
)

// view makes the View of a request from "METHOD /target" and header fields by pairs.
func view(line string, header ...string) *request.View {
	method, target, _ := strings.Cut(line, " ")
	path, query, has := strings.Cut(target, "?")
	v := &request.View{Method: []byte(method), Target: []byte(target), Path: []byte(path)}
	if has {
		v.Query = []byte(query)
	}
	for i := 0; i+1 < len(header); i += 2 {
		v.Fields = append(v.Fields, request.Field{Name: []byte(header[i]), Value: []byte(header[i+1])})
	}
	return v
}

// read makes the readings of a path.
func read(path string) *request.Paths {
	p := new(request.Paths)
	p.Read([]byte(path))
	return p
}

func classifyView(v *request.View, s *Service, xml bool) kind {
	return classify(v.Kind(), read(string(v.Path)), s, xml)
}

const browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

// TestPitfall20KindOfRequest names, for each way in which a browser or a library makes requests, the form of challenge that
// is readable there. Where neither a person nor a script of ours reads the answer, it must never be HTML.
func TestPitfall20KindOfRequest(t *testing.T) {
	s := &Service{Config: ServiceConfig{AJAXPaths: []string{"/api"}}}
	f := func(want kind, line string, header ...string) {
		t.Helper()
		if got := classifyView(view(line, header...), s, false); got != want {
			t.Errorf("%s %q: kind %d, wanted %d", line, header, got, want)
		}
	}
	fetch := func(dest, mode string, more ...string) []string {
		return append([]string{"Sec-Fetch-Dest", dest, "Sec-Fetch-Mode", mode}, more...)
	}

	// people
	f(kindPage, "GET /", "Accept", browserAccept)
	f(kindPage, "GET /") // curl
	f(kindPage, "HEAD /", "Accept", "*/*")
	f(kindPage, "GET /a.png", "Accept", browserAccept) // typed into the address line of an old browser
	f(kindPage, "GET /a.png", fetch("document", "navigate")...)
	f(kindPage, "GET /frame", fetch("iframe", "navigate")...)
	f(kindAJAX, "DELETE /thing") // no browser does that without a script
	f(kindAJAX, "POST /", "Content-Type", "application/json", "Accept", "*/*")
	f(kindForm, "POST /", fetch("document", "navigate", "Content-Type", "application/x-www-form-urlencoded")...)
	f(kindForm, "POST /", "Content-Type", "Multipart/Form-Data; boundary=x")
	f(kindPage, "POST /", "Content-Type", "application/octet-stream")

	// scripts
	f(kindAJAX, "GET /", "X-Requested-With", "XMLHttpRequest", "Accept", browserAccept)
	f(kindAJAX, "GET /", "x-requested-with", "xmlhttprequest")
	f(kindAJAX, "GET /", fetch("empty", "cors", "Accept", "*/*")...)
	f(kindAJAX, "POST /", fetch("empty", "cors", "Content-Type", "application/x-www-form-urlencoded")...)
	f(kindAJAX, "GET /", fetch("empty", "cors", "HX-Request", "true", "Accept", "*/*")...) // htmx in a browser
	f(kindAJAX, "GET /", "Accept", "application/json")
	f(kindAJAX, "POST /", "Accept", "application/json, text/plain, */*", "Content-Type", "application/json") // axios
	f(kindAJAX, "GET /api/x", "Accept", browserAccept)
	f(kindAJAX, "GET /%61pi/x", "Accept", browserAccept)
	f(kindPage, "GET /apix", "Accept", browserAccept)
	f(kindAJAX, "GET /a.json", "Accept", "application/json")

	// parts of pages, where nobody would see a page
	for _, dest := range []string{"image", "style", "script", "font", "audio", "video", "track", "manifest", "worker", "serviceworker", "embed", "object", "report", "something-new"} {
		f(kindSubresource, "GET /x", fetch(dest, "no-cors", "Accept", "*/*")...)
	}
	f(kindSubresource, "GET /x", fetch("empty", "no-cors")...)            // a beacon
	f(kindSubresource, "GET /live", fetch("empty", "websocket")...)       // a WebSocket of a new browser
	f(kindSubresource, "GET /live", "Upgrade", "WebSocket")               // and of an old one
	f(kindSubresource, "GET /a/style.CSS", "Accept", "text/css,*/*;q=.1") // without Sec-Fetch
	f(kindSubresource, "GET /favicon.ico")
	f(kindAJAX, "GET /events", fetch("empty", "cors", "Accept", "text/event-stream")...) // EventSource: it reads neither

	// preflights
	preflight := []string{"Origin", "https://o.example", "Access-Control-Request-Method", "POST"}
	f(kindPreflight, "OPTIONS /api/x", preflight...)
	f(kindPreflight, "OPTIONS /", fetch("empty", "cors", preflight...)...)
	f(kindPage, "OPTIONS /", "Origin", "https://o.example")
	f(kindPage, "OPTIONS /", "Access-Control-Request-Method", "POST")
	f(kindPage, "GET /", preflight...) // a robot that borrows the headers

	if got := classifyView(view("GET /", preflight...), s, true); got != kindXML {
		t.Errorf("an XML path: kind %d", got)
	}
}

// TestPitfall23StaticIsNoPace: the parts of a page do not count towards its reader's pace, and a script's call does not
// hide behind an extension.
func TestPitfall23StaticIsNoPace(t *testing.T) {
	f := func(want bool, v *request.View) {
		t.Helper()
		if got := namesStatic(v, v.Kind()); got != want {
			t.Errorf("%s %q: %t", v.Target, v.Fields, got)
		}
	}
	f(true, view("GET /a.png", "Accept", "image/*"))
	f(true, view("GET /a.css"))
	f(true, view("GET /font", "Sec-Fetch-Dest", "font"))
	f(false, view("GET /", "Accept", browserAccept))
	f(false, view("GET /api", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Mode", "cors"))
	f(false, view("GET /", "Sec-Fetch-Dest", "document"))

	for contentType, want := range map[string]bool{
		"text/html": true, "Text/HTML; charset=utf-8": true, "application/json": true, "application/xml": true, "text/xml": true,
		"image/png": false, "text/css": false, "": false, "text/plain": false,
	} {
		var e verdict.Event
		if e.Answered(200, []byte(contentType), 1, time.Second); e.Document != want {
			t.Errorf("%q is a document: %t", contentType, e.Document)
		}
	}
}

func TestClassifyAllocatesNothing(t *testing.T) {
	s := &Service{Config: ServiceConfig{AJAXPaths: []string{"/api"}}}
	v := view("POST /a/b.html?x=1", "Host", "example.org", "Accept", browserAccept, "Sec-Fetch-Dest", "document", "Content-Type", "application/x-www-form-urlencoded")
	paths := *read(string(v.Path))
	var k kind
	if n := testing.AllocsPerRun(100, func() { k = classify(v.Kind(), &paths, s, false) }); n != 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
	if k != kindForm {
		t.Errorf("kind %d", k)
	}
}
