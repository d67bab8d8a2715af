package proxy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/templates"
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
	return classify(v, purposeOf(v), read(string(v.Path)), s, xml)
}

const browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

// browserFields are what every browser sends with each request.
var browserFields = []string{
	"User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 " +
		"Safari/537.36",
	"Accept-Language", "en", "Accept-Encoding", "gzip, deflate, br",
}

// kindService is a service on a.example and b.example with scripts at /api, whose answers the scripts of
// https://app.example may read.
func kindService(t *testing.T) *Service {
	t.Helper()
	set, err := templates.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := captcha.DefaultServiceConfig()
	cfg.CORSOrigins = []string{"https://app.example"}
	c, err := captcha.NewSettings(cfg, captcha.SettingsDeps{
		Service: "a", Hosts: kindHosts{},
		Cookies: &identity.CookieSettings{}, Pages: set,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Service{Captcha: c, Config: ServiceConfig{AJAXPaths: []string{"/api"}}}
}

type kindHosts struct{}

func (kindHosts) OwnsHost(host string) bool { return host == "a.example" || host == "b.example" }

// TestPitfall20KindOfRequest walks the table of forms: for each way in which a browser, a page's script or a program
// makes requests, what it gets when it is stopped. Nobody gets a challenge who can't answer it, and no program a
// success.
func TestPitfall20KindOfRequest(t *testing.T) {
	s := kindService(t)
	f := func(want kind, line string, header ...string) {
		t.Helper()
		v := view(line, header...)
		v.Host = []byte("a.example")
		if got := classifyView(v, s, false); got != want {
			t.Errorf("%s %q: kind %d, wanted %d", line, header, got, want)
		}
	}
	browser := func(more ...string) []string { return append(slices.Clone(browserFields), more...) }
	fetch := func(dest, mode string, more ...string) []string {
		return browser(append([]string{"Sec-Fetch-Dest", dest, "Sec-Fetch-Mode", mode}, more...)...)
	}
	const form, json = "application/x-www-form-urlencoded", "application/json"
	here := []string{"Referer", "https://a.example/page"}
	withHere := func(more ...string) []string { return append(more, here...) }

	// people
	f(kindPage, "GET /", browser("Accept", browserAccept)...)
	f(kindPage, "GET /", browser(withHere("Accept", browserAccept)...)...) // without https browsers send no Sec-Fetch
	f(kindPage, "GET /a.png", browser("Accept", browserAccept)...)
	f(kindPage, "GET /a.png", fetch("document", "navigate")...)
	f(kindPage, "GET /api/x", fetch("document", "navigate", "Accept", browserAccept)...)
	f(kindPage, "GET /frame", fetch("iframe", "navigate")...)
	f(kindPage, "GET /export", fetch("empty", "navigate")...) // a download
	f(kindPage, "GET /", "User-Agent", "Lynx/2.9.0", "Accept", browserAccept, "Accept-Language", "en",
		"Accept-Encoding", "gzip")
	// a proxy has taken fields out
	f(kindPage, "GET /", "User-Agent", browserFields[1], "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate")
	f(kindForm, "POST /", fetch("document", "navigate", "Content-Type", form)...)
	f(kindForm, "POST /", browser("Content-Type", "Multipart/Form-Data; boundary=x", "Accept", browserAccept)...)
	f(kindForm, "POST /", browser(withHere("Content-Type", form, "Accept", browserAccept)...)...)

	// scripts of pages
	f(kindScript, "GET /", fetch("empty", "cors", withHere("Accept", "*/*")...)...)
	f(kindScript, "GET /", fetch("empty", "same-origin", "Origin", "https://a.example")...)
	f(kindScript, "GET /", fetch("empty", "cors", "Origin", "https://app.example")...)
	f(kindScript, "GET /", fetch("empty", "cors", "Origin", "https://b.example")...)
	f(kindScript, "GET /", fetch("empty", "cors", "Sec-Fetch-Site", "same-origin")...) // its page withholds the Referer
	f(kindScript, "POST /", fetch("empty", "cors", withHere("Content-Type", form)...)...)
	f(kindScript, "DELETE /thing", fetch("empty", "cors", here...)...)
	f(kindScript, "GET /events", fetch("empty", "cors", withHere("Accept", "text/event-stream")...)...)
	// an old browser, or no https
	f(kindScript, "POST /", browser(withHere("Content-Type", json, "Accept", "*/*")...)...)
	f(kindScript, "GET /", browser(withHere("Accept", json+", text/plain, */*")...)...)
	f(kindScript, "GET /api/x", browser("Accept", "*/*")...) // where the service says that scripts call
	f(kindScript, "GET /%61pi/x", browser("Accept", browserAccept)...)
	// jQuery
	f(kindScript, "POST /", browser(withHere("X-Requested-With", "XMLHttpRequest", "Accept",
		"text/html, */*; q=0.01")...)...)
	f(kindJSON, "GET /", "X-Requested-With", "XMLHttpRequest")
	f(kindJSON, "GET /", browser("X-Requested-With", "XMLHttpRequest", "Accept", browserAccept)...)
	f(kindJSON, "POST /", "x-requested-with", "xmlhttprequest", "Content-Type", json)

	// parts of pages, where nobody would see a page
	for _, dest := range []string{
		"image", "style", "script", "font", "audio", "video", "track", "manifest", "worker",
		"serviceworker", "embed", "object", "report", "something-new",
	} {
		f(kindSubresource, "GET /x", fetch(dest, "no-cors", "Accept", "*/*")...)
	}
	f(kindSubresource, "GET /x", fetch("font", "cors", here...)...)
	f(kindSubresource, "GET /x", fetch("empty", "no-cors")...) // a beacon
	// a WebSocket of a new browser
	f(kindSubresource, "GET /live", fetch("empty", "websocket")...)
	// and of an old one
	f(kindSubresource, "GET /live", browser("Upgrade", "WebSocket", "Origin", "https://a.example")...)
	f(kindSubresource, "GET /a/style.CSS", browser("Accept", "text/css,*/*;q=.1")...)
	f(kindSubresource, "GET /photo", browser(withHere("Accept", "image/avif,image/webp,*/*;q=0.8")...)...)

	// programs
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "MKCOL", "OPTIONS"} {
		for _, agent := range []string{
			"", "curl/8.5.0", "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
			"GitHub-Hookshot/abc", "git/2.39", "rclone/v1.60", "npm/10", "GPTBot/1.2",
		} {
			for _, typ := range []string{"", json, form, "application/octet-stream"} {
				f(kindProgram, method+" /api/x", "User-Agent", agent, "Content-Type", typ, "Accept", "*/*")
			}
		}
	}
	f(kindProgram, "GET /")
	f(kindProgram, "GET /favicon.ico")
	f(kindProgram, "GET /live", "Upgrade", "websocket", "User-Agent", "Go-http-client/1.1")
	// any Referer makes no script
	f(kindProgram, "GET /", "Accept", browserAccept, "Referer", "https://a.example/")
	// a browser's name alone
	f(kindProgram, "GET /", "User-Agent", browserFields[1], "Accept", "*/*")
	// a form without a browser
	f(kindProgram, "POST /", "Content-Type", form, "User-Agent", "PayPal IPN ( https://www.paypal.com/ipn )")
	f(kindProgram, "HEAD /", browser("Accept", "*/*")...)
	f(kindProgram, "GET /", browser("Accept", json)...) // nor does Accept
	f(kindProgram, "GET /", fetch("empty", "cors", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")...)
	f(kindProgram, "GET /", fetch("empty", "cors", "Referer", "https://a.example.evil.example/")...)
	f(kindProgram, "PUT /", browser("Accept", browserAccept)...)

	// preflights
	preflight := []string{"Origin", "https://o.example", "Access-Control-Request-Method", "POST"}
	f(kindPreflight, "OPTIONS /api/x", preflight...)
	f(kindPreflight, "OPTIONS /", fetch("empty", "cors", preflight...)...)
	f(kindProgram, "OPTIONS /", "Origin", "https://o.example")
	f(kindProgram, "OPTIONS /", "Access-Control-Request-Method", "POST")
	f(kindProgram, "GET /", preflight...) // a robot that borrows the headers

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
		"text/html": true, "Text/HTML; charset=utf-8": true, "application/json": true, "application/xml": true,
		"text/xml":  true,
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
	v := view("POST /a/b.html?x=1", append(slices.Clone(browserFields), "Accept", browserAccept, "Sec-Fetch-Dest",
		"document", "Content-Type", "application/x-www-form-urlencoded")...)
	paths := *read(string(v.Path))
	var k kind
	if n := testing.AllocsPerRun(100, func() { k = classify(v, purposeOf(v), &paths, s, false) }); n != 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
	if k != kindForm {
		t.Errorf("kind %d", k)
	}
}

func purposeOf(v *request.View) *purpose {
	var p purpose
	v.ReadPurpose(&p.Purpose)
	return &p
}
