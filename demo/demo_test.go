package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
	"golang.org/x/net/html"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get answers one request of a browser without cookies.
func get(t *testing.T, h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var pagePaths = []string{
	"/", "/articles/lighthouse", "/articles/river", "/articles/bread", "/gallery", "/guestbook", "/guestbook/rules", "/list", "/live",
	"/search", "/search?query=river", "/search?query=%22%3E%3Cscript%3E", "/play", "/play?problem=admin", "/nowhere",
}

// Every page stands in both languages, is well formed, can be used without sight, and loads nothing from elsewhere.
func TestPages(t *testing.T) {
	site := Site(Options{})
	for _, path := range pagePaths {
		for _, lang := range []string{"en", "ru"} {
			w := get(t, site, path, "Accept-Language", lang, "Accept", "text/html", "X-Real-Ip", "198.51.100.9")
			want := 200
			if path == "/nowhere" {
				want = 404
			}
			if w.Code != want || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("%s: %d %v", path, w.Code, w.Header())
			}
			body := w.Body.String()
			if !strings.Contains(body, `<html lang="`+lang+`">`) {
				t.Errorf("%s: not in %s", path, lang)
			}
			if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
				t.Errorf("%s: policy %q", path, csp)
			}
			checkHTML(t, path+" "+lang, body)
		}
	}
}

// checkHTML holds a page to what a validator would say first.
func checkHTML(t *testing.T, where, body string) {
	t.Helper()
	void := map[string]bool{"meta": true, "link": true, "img": true, "input": true, "br": true}
	var open []string
	ids, labelled := map[string]bool{}, map[string]bool{}
	var inputs []string
	h1 := 0
	z := html.NewTokenizer(strings.NewReader(body))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		tok := z.Token()
		attr := map[string]string{}
		for _, a := range tok.Attr {
			if _, twice := attr[a.Key]; twice {
				t.Errorf("%s: <%s> has %s twice", where, tok.Data, a.Key)
			}
			attr[a.Key] = a.Val
		}
		switch kind {
		case html.StartTagToken:
			if !void[tok.Data] {
				open = append(open, tok.Data)
			}
			if id := attr["id"]; id != "" {
				if ids[id] {
					t.Errorf("%s: id %s twice", where, id)
				}
				ids[id] = true
			}
			for _, name := range []string{"src", "href", "action", "formaction", "poster", "srcset"} {
				if v, ok := attr[name]; ok && (!strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "#") || strings.HasPrefix(v, "//")) {
					t.Errorf("%s: <%s %s=%q> leads outside", where, tok.Data, name, v)
				}
			}
			for name := range attr {
				if strings.HasPrefix(name, "on") || name == "style" {
					t.Errorf("%s: <%s %s> is refused by the policy", where, tok.Data, name)
				}
			}
			switch tok.Data {
			case "h1":
				h1++
			case "img":
				if _, ok := attr["alt"]; !ok {
					t.Errorf("%s: picture without alt: %s", where, attr["src"])
				}
			case "label":
				labelled[attr["for"]] = true
			case "input", "textarea":
				if attr["type"] != "hidden" && attr["type"] != "radio" {
					inputs = append(inputs, attr["id"])
				}
			case "script":
				if attr["src"] == "" {
					t.Errorf("%s: inline script", where)
				}
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != tok.Data {
				t.Fatalf("%s: </%s> closes %v", where, tok.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) != 0 || h1 != 1 {
		t.Errorf("%s: left open %v, %d first headings", where, open, h1)
	}
	for _, id := range inputs {
		if id == "" || !labelled[id] {
			t.Errorf("%s: field %q without label", where, id)
		}
	}
	if m := regexp.MustCompile(`[a-z]+\.[a-z_]+(\.[a-z0-9]+)?\s*<`).FindAllString(body, -1); m != nil {
		for _, s := range m {
			if key := strings.TrimSpace(strings.TrimSuffix(s, "<")); regexp.MustCompile(`^(site|nav|home|article|gallery|guestbook|list|live|search|missing|role|rules|play|me|verdict|picture)\.`).MatchString(key) {
				t.Errorf("%s: text %s is missing", where, key)
			}
		}
	}
}

// The catalogues have the same keys, and none that is empty.
func TestTexts(t *testing.T) {
	all := loadTexts()
	if len(all) != 2 {
		t.Fatalf("%d languages", len(all))
	}
	for lang, c := range all {
		for key, text := range c {
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s: %s is empty", lang, key)
			}
			for other, d := range all {
				if _, ok := d[key]; !ok {
					t.Errorf("%s has %s, %s has not", lang, key, other)
				}
			}
		}
	}
	// What the templates name literally exists.
	names, _ := fs.Glob(files, "pages/*.html")
	for _, name := range names {
		b, _ := files.ReadFile(name)
		for _, m := range regexp.MustCompile(`call \$?\.[TH] "([^"]+)"`).FindAllSubmatch(b, -1) {
			if _, ok := all["en"][string(m[1])]; !ok {
				t.Errorf("%s: no text %s", name, m[1])
			}
		}
	}
}

func TestNothingIsLoadedFromElsewhere(t *testing.T) {
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(path)
		b = bytes.ReplaceAll(b, []byte(`xmlns="http://www.w3.org/2000/svg"`), nil)
		if m := regexp.MustCompile(`(https?:)?//[a-z0-9-]+\.[a-z]+|url\(|@import`).Find(b); m != nil {
			t.Errorf("%s refers to %s", path, m)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLanguage(t *testing.T) {
	site := Site(Options{})
	f := func(accept, cookie, want string) {
		t.Helper()
		w := get(t, site, "/", "Accept-Language", accept, "Cookie", cookie)
		if got := w.Header().Get("Content-Language"); got != want {
			t.Errorf("%q %q: %s, want %s", accept, cookie, got, want)
		}
	}
	f("", "", "en")
	f("ru-RU,ru;q=0.9,en;q=0.8", "", "ru")
	f("de,en;q=0.5,ru;q=0.7", "", "ru")
	f("ru;q=0", "", "en")
	f("ru", "demo_lang=en", "en")
	f("ru", "demo_lang=xx", "ru")

	back := func(to, want string) {
		t.Helper()
		r := httptest.NewRequest("POST", "/language", strings.NewReader("lang=ru&back="+to))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		if w.Code != 303 || w.Header().Get("Location") != want || !strings.HasPrefix(w.Header().Get("Set-Cookie"), "demo_lang=ru;") {
			t.Errorf("back=%s: %d %v", to, w.Code, w.Header())
		}
	}
	back("/search?query=x", "/search?query=x")
	for _, evil := range []string{"//evil.example/", "https://evil.example/", "/%5Cevil.example", "javascript:alert(1)", "/%09/evil.example"} {
		back(evil, "/")
	}
}

func TestPictures(t *testing.T) {
	site := Site(Options{})
	seen := map[string]string{}
	for _, name := range pictureNames {
		w := get(t, site, "/pictures/"+name+".png")
		img, err := png.Decode(bytes.NewReader(w.Body.Bytes()))
		if w.Code != 200 || err != nil || img.Bounds().Dx() != pictureW || img.Bounds().Dy() != pictureH {
			t.Fatalf("%s: %d %v", name, w.Code, err)
		}
		if len(w.Body.Bytes()) > 40<<10 {
			t.Errorf("%s has %d bytes", name, w.Body.Len())
		}
		tag := w.Header().Get("ETag")
		if seen[tag] != "" {
			t.Errorf("%s looks like %s", name, seen[tag])
		}
		seen[tag] = name
		if again := get(t, site, "/pictures/"+name+".png", "If-None-Match", tag); again.Code != 304 {
			t.Errorf("%s: %d with its own tag", name, again.Code)
		}
	}
	for _, path := range []string{"/pictures/x.png", "/pictures/dawn", "/pictures/..%2fsite.css.png"} {
		if w := get(t, site, path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func post(t *testing.T, h http.Handler, target, kind, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("POST", target, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const urlencoded = "application/x-www-form-urlencoded"

func TestGuestbook(t *testing.T) {
	site := Site(Options{})
	w := post(t, site, "/guestbook", urlencoded, "name=Ann&words=%3Cb%3Ehello%3C%2Fb%3E+world",
		"X-Test-Header", "came <through>", "Cookie", "spravka=0123456789abcdef; i=xyz")
	body := w.Body.String()
	checkHTML(t, "posted", body)
	for _, want := range []string{"&lt;b&gt;hello&lt;/b&gt; world", "X-Test-Header", "came &lt;through&gt;", "spravka=012345…", "i=xyz"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if strings.Contains(body, "0123456789abcdef") {
		t.Error("the page prints a whole pass")
	}
	if got := get(t, site, "/guestbook").Body.String(); !strings.Contains(got, "hello&lt;/b&gt; world") {
		t.Error("the entry is not kept")
	}

	var buf bytes.Buffer
	mp := multipart.NewWriter(&buf)
	_ = mp.WriteField("name", "Bob")
	_ = mp.WriteField("words", "by multipart")
	part, _ := mp.CreateFormFile("file", `pic".png`)
	_, _ = part.Write(make([]byte, 1234))
	_ = mp.Close()
	body = post(t, site, "/guestbook", mp.FormDataContentType(), buf.String()).Body.String()
	if !strings.Contains(body, "1234 bytes") || !strings.Contains(body, "by multipart") {
		t.Error("the multipart form is not shown")
	}

	for _, c := range []struct {
		kind, body string
		want       int
	}{
		{urlencoded, "name=x", 422},
		{urlencoded, "words=" + strings.Repeat("x", maxForm), 413},
		{mp.FormDataContentType(), "garbage", 422},
		{"multipart/form-data", "x", 400},
		{urlencoded, "words=%zz", 400},
	} {
		if w := post(t, site, "/guestbook", c.kind, c.body); w.Code != c.want {
			t.Errorf("%s %.20q: %d, want %d", c.kind, c.body, w.Code, c.want)
		}
	}
	if w := post(t, site, "/guestbook", urlencoded, "words=x", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"); w.Code != 403 {
		t.Errorf("a foreign page may sign: %d", w.Code)
	}
}

func TestGuestbookIsBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSite(Options{Now: func() time.Time { return now }})
	for i := range 100 {
		post(t, s, "/guestbook", urlencoded, fmt.Sprintf("words=entry+%d", i))
	}
	if n := len(s.book.latest(now)); n != maxEntries || s.book.latest(now)[0].Words != "entry 99" {
		t.Errorf("%d entries", n)
	}
	now = now.Add(entryLife)
	if n := len(s.book.latest(now)); n != 0 {
		t.Errorf("%d entries outlive their time", n)
	}
}

func TestList(t *testing.T) {
	site := Site(Options{})
	var a struct {
		Page, Pages int
		Items       []struct {
			ID    int
			Title string
		}
	}
	w := get(t, site, "/api/list?page=3")
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Page != 3 || len(a.Items) != 5 || a.Items[0].ID != 11 {
		t.Errorf("%v %s", err, w.Body)
	}
	for _, page := range []string{"0", "-1", "999", "x", ""} {
		if w := get(t, site, "/api/list?page="+page); w.Code != 200 || !strings.Contains(w.Body.String(), `"page":1,`) {
			t.Errorf("page %q: %d %s", page, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest("OPTIONS", "/api/list", nil)
	r.Header.Set("Origin", "http://other.example")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	pre := httptest.NewRecorder()
	site.ServeHTTP(pre, r)
	if pre.Code != 204 || pre.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("preflight: %d %v", pre.Code, pre.Header())
	}
}

func TestXMLSearch(t *testing.T) {
	site := Site(Options{})
	type answer struct {
		XMLName  xml.Name `xml:"yandexsearch"`
		Version  string   `xml:"version,attr"`
		Query    string   `xml:"request>query"`
		Response struct {
			Found int `xml:"found"`
			Docs  []struct {
				URL     string `xml:"url"`
				Title   string `xml:"title"`
				Passage string `xml:"passage"`
			} `xml:"results>doc"`
		} `xml:"response"`
	}
	f := func(query, lang string, found int, says string) {
		t.Helper()
		r := httptest.NewRequest("GET", "/xmlsearch", nil)
		r.URL.RawQuery = "query=" + query
		r.Header.Set("Accept-Language", lang)
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		var a answer
		if err := xml.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v in %s", query, err, w.Body)
		}
		if a.Version != "1.0" || a.Response.Found != found || len(a.Response.Docs) != found || a.Query != says {
			t.Errorf("%s: %+v", query, a)
		}
	}
	f("RIVER", "en", 1, "RIVER")
	f("%D1%80%D0%B5%D0%BA%D0%B0", "ru", 1, "река")
	f("", "en", 3, "")
	f("no+such+word", "en", 0, "no such word")
	f("%3C%2Fquery%3E%26%22", "en", 0, `</query>&"`)
	f("%ff%fe", "en", 0, "\uFFFD") // adjoining bad bytes become one
	f("a%00b", "en", 0, "a\uFFFDb")
}

func TestStatic(t *testing.T) {
	site := Site(Options{})
	for file, kind := range map[string]string{"site.css": "text/css", "list.js": "text/javascript", "live.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		w := get(t, site, "/static/"+file)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", file, w.Code, w.Header())
		}
	}
	for _, path := range []string{"/static/none.css", "/static/..%2fpages%2flayout.html", "/static/"} {
		if w := get(t, site, path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// running is a site on a loopback port; stop ends it and asserts that it ended well.
func running(t *testing.T, opts Options) (addr string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, opts) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the site does not stop")
		}
		http.DefaultClient.CloseIdleConnections()
	}
	t.Cleanup(stop)
	return ln.Addr().String(), stop
}

func TestWebSocket(t *testing.T) {
	addr, stop := running(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://"+addr+"/live/clock", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://" + addr}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	read := func() (m map[string]any) {
		t.Helper()
		_, b, err := c.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := read()
	if _, err := time.Parse(time.RFC3339, fmt.Sprint(first["time"])); err != nil || first["n"] != 1.0 {
		t.Errorf("first tick %v", first)
	}
	if err := c.Write(ctx, websocket.MessageText, []byte(`say "это"`)); err != nil {
		t.Fatal(err)
	}
	heard := false
	for n := 0; n < 3; n++ {
		if m := read(); m["echo"] == `say "это"` {
			heard = true
			break
		}
	}
	if !heard {
		t.Error("no echo")
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, _, err := c.Read(ctx); err != nil {
				ended <- err
				return
			}
		}
	}()
	stop()
	if err := <-ended; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the socket ended with %v", err)
	}
}

func TestWebSocketRefusesForeignPages(t *testing.T) {
	addr, _ := running(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, resp, err := websocket.Dial(ctx, "ws://"+addr+"/live/clock", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://evil.example"}}})
	if err == nil || resp.StatusCode != 403 {
		t.Errorf("a foreign page may listen: %v", err)
	}
	// The gateway's public name differs from the upstream's.
	c, _, err := websocket.Dial(ctx, "ws://"+addr+"/live/clock", &websocket.DialOptions{HTTPHeader: http.Header{
		"Origin": {"http://shop.example"}, "X-Forwarded-Host": {"shop.example"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.CloseNow()
}

func TestEventStream(t *testing.T) {
	addr, stop := running(t, Options{})
	req, _ := http.NewRequest("GET", "http://"+addr+"/live/events", nil)
	req.Header.Set("Last-Event-ID", "41")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v", resp.Header)
	}
	in := bufio.NewScanner(resp.Body)
	var ids []string
	for len(ids) < 2 && in.Scan() {
		if id, ok := strings.CutPrefix(in.Text(), "id: "); ok {
			ids = append(ids, id)
		}
	}
	if fmt.Sprint(ids) != "[42 43]" {
		t.Errorf("ids %v", ids)
	}
	stop() // ends the stream
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	s := newSite(Options{})
	for range maxStreams {
		s.streams.enter()
	}
	for _, path := range []string{"/live/clock", "/live/events"} {
		if w := get(t, s, path); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
