package e2e

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// Existing clients of the old formats are not rewritten for us. Each test here reads an answer in the way that one kind
// of client does: roughly, by what is in the text. What a test looks for is a promise about bytes.

// oldSite is a service in enforce mode with one banned visitor and one partner, and its gateway.
func oldSite(t *testing.T) (g *gateway, banned *client) {
	t.Helper()
	file := writeFile(t, "old.yaml", fmt.Sprintf(`
services:
  - name: search
    upstream: {urls: [%q]}
    requests: {xml_paths: [/xmlsearch], ajax_paths: [/api]}
    captcha:
      compat_yandex: true
      partners:
        - {name: acme, key: partner-key-0123456789}
`, site(t).URL))
	g = start(t, "serve", "--config", file, "--captcha-test-answer", testAnswer)
	g.ban("ip:127.0.0.1", "10m")
	g.ban("ip:"+badUser, "10m")
	return g, visitor(t)
}

const partnerSearch = "/xmlsearch?query=go&user=acme&key=partner-key-0123456789"

func (g *gateway) partner(t *testing.T) *client {
	c := visitor(t)
	c.Jar = nil
	c.header.Set("X-Real-Ip", badUser)
	c.header.Set("Accept", "*/*")
	return c
}

// TestClientXMLSubstrings: a client that checks whether the answer contains a text.
func TestClientXMLSubstrings(t *testing.T) {
	t.Parallel()
	g, _ := oldSite(t)
	p := g.partner(t)
	body := p.get(g.url+partnerSearch).must(t, 200, "").body
	for _, literal := range []string{
		`<error code="100">`, `<error code="100">Robot request</error>`, `<captcha-status>`, `<captcha-status></captcha-status>`,
		`<captcha-img-url>http`, `</captcha-img-url>`, `<captcha-key>`, `</captcha-key>`, `<yandexsearch version="1.0">`,
		`<?xml version="1.0" encoding="utf-8"?>`,
	} {
		if !strings.Contains(body, literal) {
			t.Errorf("no %s in\n%s", literal, body)
		}
	}
	if strings.Contains(body, "/>") {
		t.Errorf("a self-closing tag in\n%s", body)
	}
	wrong := p.get(g.url + "/xcheckcaptcha?key=" + between(body, "<captcha-key>", "</captcha-key>") + "&rep=000000")
	if !strings.Contains(wrong.body, "<captcha-status>failed</captcha-status>") {
		t.Errorf("after a wrong answer:\n%s", wrong.body)
	}
	ok := p.get(g.url + "/xcheckcaptcha?key=" + between(wrong.body, "<captcha-key>", "</captcha-key>") + "&rep=" + testAnswer)
	if ok.StatusCode != 200 || strings.Contains(ok.body, "<captcha-status>") || strings.Contains(ok.body, `code="100"`) {
		t.Errorf("a right answer reads like a challenge:\n%s", ok.body)
	}
}

// between extracts a text from a text, as clients without an XML parser do.
func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}

// TestClientXMLRegexps: a client that matches each element on its own line.
func TestClientXMLRegexps(t *testing.T) {
	t.Parallel()
	g, _ := oldSite(t)
	p := g.partner(t)
	body := p.get(g.url + partnerSearch).body
	img := regexp.MustCompile(`<captcha-img-url>(.+?)</captcha-img-url>`).FindStringSubmatch(body)
	key := regexp.MustCompile(`<captcha-key>([^<]+)</captcha-key>`).FindStringSubmatch(body)
	status := regexp.MustCompile(`(?s)<captcha-status>(.*?)</captcha-status>`).FindStringSubmatch(body)
	code := regexp.MustCompile(`<error\s+code="(\d+)"\s*>`).FindStringSubmatch(body)
	if img == nil || key == nil || status == nil || code == nil || code[1] != "100" || status[1] != "" {
		t.Fatalf("%q %q %q %q in\n%s", img, key, status, code, body)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9_.~-]+$`).MatchString(key[1]) {
		t.Errorf("the key %q would need escaping in a URL", key[1])
	}
	if strings.Contains(img[1], "&") {
		t.Errorf("the picture's address %q would have to be unescaped", img[1])
	}
	r := p.get(img[1])
	if r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), "image/") {
		t.Errorf("picture: %d %s", r.StatusCode, r.Header.Get("Content-Type"))
	}
}

// TestClientXMLRoot: a client that parses XML and takes the captcha's elements from the root, not from response.
func TestClientXMLRoot(t *testing.T) {
	t.Parallel()
	g, _ := oldSite(t)
	root := parseXML(t, g.partner(t).get(g.url+partnerSearch).body)
	if root.name != "yandexsearch" || root.attrs["version"] != "1.0" {
		t.Fatalf("root %s %v", root.name, root.attrs)
	}
	if e := root.child("response").child("error"); e == nil || e.attrs["code"] != "100" || e.text == "" {
		t.Errorf("response/error: %+v", e)
	}
	for _, name := range []string{"captcha-img-url", "captcha-key", "captcha-status"} {
		if root.child(name) == nil {
			t.Errorf("%s is no child of the root", name)
		}
		if root.child("response").child(name) != nil {
			t.Errorf("%s stands in response", name)
		}
	}
}

// TestClientTestQueries: partners test their clients with a query that always gets the captcha.
func TestClientTestQueries(t *testing.T) {
	t.Parallel()
	g, _ := oldSite(t)
	p := g.partner(t)
	p.header.Set("X-Real-Ip", goodUser)
	p.get(g.url+partnerSearch).must(t, 200, "site got GET")
	p.get(g.url+strings.Replace(partnerSearch, "query=go", "query=e48a2b93de1740f48f6de0d45dc4192a", 1)).must(t, 200, `<error code="100">`)
	p.get(g.url+partnerSearch+"&showmecaptcha=yes").must(t, 200, `<error code="100">`)
}

// TestClientPartnerCookie: a partner takes spravka from Set-Cookie and sets it for its own domain, by replacing the value
// of Domain=.
func TestClientPartnerCookie(t *testing.T) {
	t.Parallel()
	g, _ := oldSite(t)
	p := g.partner(t)
	p.header.Set("X-Real-Ip", goodUser)
	fresh := p.get(g.url+partnerSearch).must(t, 200, "site got GET").Header.Get("Set-Cookie")
	p.header.Set("X-Real-Ip", badUser)
	key := between(p.get(g.url+partnerSearch).body, "<captcha-key>", "</captcha-key>")
	earned := p.get(g.url + "/xcheckcaptcha?key=" + key + "&rep=" + testAnswer).Header.Get("Set-Cookie")
	domain := regexp.MustCompile(`(?i)\bdomain=[^;]*`)
	for what, set := range map[string]string{"a fresh": fresh, "an earned": earned} {
		if !strings.HasPrefix(set, "spravka=") || !domain.MatchString(set) {
			t.Errorf("%s pass: %q, wanted spravka=… with Domain=", what, set)
			continue
		}
		own := domain.ReplaceAllString(set, "Domain=.partner.example")
		cookies := (&http.Response{Header: http.Header{"Set-Cookie": {own}}}).Cookies()
		if len(cookies) != 1 || cookies[0].Domain != ".partner.example" && cookies[0].Domain != "partner.example" || cookies[0].Path != "/" {
			t.Errorf("%s pass with the partner's domain: %q", what, own)
		}
	}
	p.get(g.url+partnerSearch, "Cookie", "spravka="+between(earned, "spravka=", ";")).must(t, 200, "site got GET")
}

// TestClientLocation: an old robot recognises the 302 by a pattern, and reads retpath up to the next "&".
func TestClientLocation(t *testing.T) {
	t.Parallel()
	g, v := oldSite(t)
	const wanted = "/a/b?x=1&y=%D0%BF&z=a+b"
	r := v.get(g.url+wanted).must(t, 302, "")
	to := r.Header.Get("Location")
	if !regexp.MustCompile(`^https?://[^/]+/showcaptcha\?(?:[^#]*&)?retpath=([^&]+)&`).MatchString(to) {
		t.Fatalf("Location %s", to)
	}
	back, err := url.QueryUnescape(between(to, "retpath=", "&"))
	if err != nil || back != g.url+wanted {
		t.Errorf("retpath %q, wanted %q", back, g.url+wanted)
	}
	for _, name := range []string{"cc", "retpath", "t", "u", "s"} {
		if !regexp.MustCompile(`[?&]` + name + `=[^&]+`).MatchString(to) {
			t.Errorf("no %s in %s", name, to)
		}
	}
	if r.Header.Get("X-Yandex-Captcha") != "captcha" {
		t.Errorf("X-Yandex-Captcha %q", r.Header.Get("X-Yandex-Captcha"))
	}
}

// TestClientWholeQuery: a client that shows the picture itself and then calls GET /checkcaptcha with its key and answer,
// followed by the whole query of the captcha page.
func TestClientWholeQuery(t *testing.T) {
	t.Parallel()
	g, v := oldSite(t)
	const wanted = "/a?b=1&c=2"
	page := v.get(g.url + wanted).Header.Get("Location")
	_, query, _ := strings.Cut(page, "?")
	text := v.get(page).must(t, 200, "").body
	key := regexp.MustCompile(`name="key"\s+value="([^"]+)"|value="([^"]+)"\s+name="key"`).FindStringSubmatch(text)
	if key == nil {
		t.Fatalf("no key in the page")
	}
	k := key[1] + key[2]

	wrong := v.get(g.url+"/checkcaptcha?key="+k+"&rep=000000&"+query).must(t, 302, "").Header.Get("Location")
	if !strings.HasPrefix(wrong, g.url+"/showcaptcha?") || !regexp.MustCompile(`[?&]status=failed(&|$)`).MatchString(wrong) {
		t.Fatalf("after a wrong answer: %s", wrong)
	}
	if at := strings.Index(wrong, "retpath="); !strings.Contains(wrong[at:], "&") {
		t.Errorf("retpath is the last parameter of %s", wrong)
	}
	_, query, _ = strings.Cut(wrong, "?")
	k = formOf(t, v.get(wrong).must(t, 200, "").body).Get("key")
	right := v.get(g.url+"/checkcaptcha?key="+k+"&rep="+testAnswer+"&"+query+"&unknown=1").must(t, 302, "")
	if to := right.Header.Get("Location"); to != g.url+wanted {
		t.Errorf("back to %s", to)
	}
	if set := strings.Join(right.Header.Values("Set-Cookie"), "\n"); !regexp.MustCompile(`(?m)^spravka=[^;]+;`).MatchString(set) {
		t.Errorf("Set-Cookie %s", set)
	}
	v.get(g.url+wanted).must(t, 200, "site got GET /a?b=1&c=2")
}

// jsonChallenge gets the JSON of a stopped script.
func jsonChallenge(t *testing.T, g *gateway, v *client) (body string, fields map[string]any) {
	t.Helper()
	r := v.get(g.url+"/api/list").must(t, 200, "")
	if ct := r.Header.Get("Content-Type"); !strings.HasPrefix(ct, "application/json") {
		t.Fatalf("Content-Type %s", ct)
	}
	var a map[string]any
	if err := json.Unmarshal([]byte(r.body), &a); err != nil {
		t.Fatal(err)
	}
	fields, _ = a["captcha"].(map[string]any)
	if a["type"] != "captcha" || fields == nil {
		t.Fatalf("got %s", r.body)
	}
	return r.body, fields
}

// TestClientJSON: one script looks at data.type and data.captcha["img-url"], another one searches for a text.
func TestClientJSON(t *testing.T) {
	t.Parallel()
	g, v := oldSite(t)
	body, c := jsonChallenge(t, g, v)
	if !strings.Contains(body, `"type":"captcha"`) || !strings.Contains(body, `"status":""`) {
		t.Errorf("the literal texts are not in %s", body)
	}
	for _, name := range []string{"img-url", "key", "captcha-page"} {
		if s, _ := c[name].(string); s == "" {
			t.Errorf("no %s in %s", name, body)
		}
	}
	if s, ok := c["status"].(string); !ok || s != "" {
		t.Errorf("status %v", c["status"])
	}
	img, page := c["img-url"].(string), c["captcha-page"].(string)
	for what, u := range map[string]string{"img-url": img, "captcha-page": page} {
		if !strings.HasPrefix(u, g.url+"/") {
			t.Errorf("%s %s is not on the protected host", what, u)
		}
		if !strings.Contains(body, u) { // a client that cuts it out of the text
			t.Errorf("%s is escaped in %s", what, body)
		}
	}
	if r := v.get(img); r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), "image/") || len(r.body) < 100 {
		t.Errorf("picture: %d %s, %d bytes", r.StatusCode, r.Header.Get("Content-Type"), len(r.body))
	}
	v.get(page).must(t, 200, "<form")
	if !regexp.MustCompile(`[?&]retpath=[^&]+&`).MatchString(page) {
		t.Errorf("captcha-page %s: retpath is missing or last", page)
	}
}

// TestClientJSONCheck: the ways in which scripts send the answer: format=json, X-Requested-With, Accept; by GET, by an
// urlencoded POST, and with the query of captcha-page after key and rep.
func TestClientJSONCheck(t *testing.T) {
	t.Parallel()
	g, _ := oldSite(t)
	const plain = "application/x-www-form-urlencoded"
	for name, check := range map[string]func(v *client, key, rep, query string) *response{
		"GET format=json": func(v *client, key, rep, _ string) *response {
			return v.get(g.url + "/checkcaptcha?format=json&key=" + key + "&rep=" + rep)
		},
		"GET X-Requested-With": func(v *client, key, rep, _ string) *response {
			return v.get(g.url+"/checkcaptcha?key="+key+"&rep="+rep, "X-Requested-With", "XMLHttpRequest")
		},
		"GET Accept": func(v *client, key, rep, _ string) *response {
			return v.get(g.url+"/checkcaptcha?key="+key+"&rep="+rep, "Accept", "application/json")
		},
		"POST": func(v *client, key, rep, _ string) *response {
			return v.do("POST", g.url+"/checkcaptcha", "key="+key+"&rep="+rep, "X-Requested-With", "XMLHttpRequest", "Content-Type", plain)
		},
		"POST, key in the query": func(v *client, key, rep, _ string) *response {
			return v.do("POST", g.url+"/checkcaptcha?format=json&key="+key, "rep="+rep, "Content-Type", plain)
		},
		"the whole query of captcha-page": func(v *client, key, rep, query string) *response {
			return v.get(g.url+"/checkcaptcha?key="+key+"&rep="+rep+"&"+query, "X-Requested-With", "XMLHttpRequest")
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := visitor(t)
			_, c := jsonChallenge(t, g, v)
			query := func(c map[string]any) string {
				_, q, _ := strings.Cut(c["captcha-page"].(string), "?")
				return q
			}
			wrong := check(v, c["key"].(string), "000000", query(c)).must(t, 200, `"status":"failed"`)
			var again struct{ Captcha map[string]any }
			if err := json.Unmarshal([]byte(wrong.body), &again); err != nil || again.Captcha["key"] == c["key"] {
				t.Fatalf("%v: no new key in %s", err, wrong.body)
			}
			right := check(v, again.Captcha["key"].(string), testAnswer, query(again.Captcha)).must(t, 200, `{"type":"captcha","captcha":{"status":"success"}}`)
			if set := right.Header.Values("Set-Cookie"); !strings.Contains(strings.Join(set, "\n"), "spravka=") {
				t.Errorf("Set-Cookie %q", set)
			}
			v.get(g.url+"/api/list").must(t, 200, "site got GET /api/list")
		})
	}
}

// TestClientBlocked: how a client can tell that no captcha will help.
func TestClientBlocked(t *testing.T) {
	t.Parallel()
	g, v := oldSite(t)
	g.api("POST", "/api/lists/block", map[string]string{"entry": "127.0.0.1", "ttl": "10m", "reason": "test"})
	r := v.get(g.url+"/a").must(t, 403, "")
	if got := r.Header.Get("X-Yandex-Captcha"); got != "403" {
		t.Errorf("X-Yandex-Captcha %q", got)
	}
	var a struct{ Type string }
	if err := json.Unmarshal([]byte(v.get(g.url+"/api/list").must(t, 403, "").body), &a); err != nil || a.Type != "blocked" {
		t.Errorf("%v: type %q", err, a.Type)
	}
}

// element is a parsed XML element. A nil one has no children.
type element struct {
	name     string
	attrs    map[string]string
	text     string
	children []*element
}

func (e *element) child(name string) *element {
	if e == nil {
		return nil
	}
	for _, c := range e.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

// parseXML parses a document, and fails the test if it is not well-formed.
func parseXML(t *testing.T, text string) *element {
	t.Helper()
	top := &element{}
	open := []*element{top}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		last := open[len(open)-1]
		switch tok := token.(type) {
		case xml.StartElement:
			e := &element{name: tok.Name.Local, attrs: map[string]string{}}
			for _, a := range tok.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			last.children = append(last.children, e)
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			last.text += string(tok)
		}
	}
	if len(top.children) != 1 {
		t.Fatalf("%d roots in %s", len(top.children), text)
	}
	return top.children[0]
}
