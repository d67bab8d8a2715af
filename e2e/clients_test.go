package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"antirobot/servertest"
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

// sender is a program that posts notices.
type sender struct {
	name string
	path string
	// fields are the lines of the head in the sender's order, without Host and Content-Length.
	fields func(host string, n int, body []byte) []string
	body   func(n int) string
}

const hookSecret = "secret of the hook"

func signedWith(hash crypto.Hash, text string) string {
	h := hmac.New(hash.New, []byte(hookSecret))
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

// senders have the fields that the senders of these names document.
func senders(inbox *rsa.PrivateKey) []sender {
	return []sender{
		{
			name: "Stripe", path: "/hooks/stripe",
			body: func(n int) string {
				const event = `{"id":"evt_%024d","object":"event","type":"invoice.paid","data":{"object":{"id":"in_%d"}}}`
				return fmt.Sprintf(event, n, n)
			},
			fields: func(_ string, n int, body []byte) []string {
				at := 1700000000 + n
				mark := signedWith(crypto.SHA256, fmt.Sprintf("%d.%s", at, body))
				return []string{
					"Content-Type: application/json; charset=utf-8",
					"Cache-Control: no-cache",
					"User-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)",
					"Accept: */*; q=0.5, application/xml",
					fmt.Sprintf("Stripe-Signature: t=%d,v1=%s,v0=%s", at, mark, signedWith(crypto.SHA256, "test")),
					"Connection: close",
				}
			},
		},
		{
			name: "GitHub", path: "/hooks/github",
			body: func(n int) string {
				const push = `{"ref":"refs/heads/main","after":"%040d","repository":{"full_name":"a/b"},"pusher":{"name":"a"}}`
				return fmt.Sprintf(push, n)
			},
			fields: func(_ string, n int, body []byte) []string {
				return []string{
					"User-Agent: GitHub-Hookshot/a1b2c3d",
					"Accept: */*",
					"Content-Type: application/json",
					fmt.Sprintf("X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-%012d", n),
					"X-GitHub-Event: push",
					"X-GitHub-Hook-ID: 292430182",
					"X-GitHub-Hook-Installation-Target-ID: 79929171",
					"X-GitHub-Hook-Installation-Target-Type: repository",
					"X-Hub-Signature: sha1=" + signedWith(crypto.SHA1, string(body)),
					"X-Hub-Signature-256: sha256=" + signedWith(crypto.SHA256, string(body)),
				}
			},
		},
		{
			name: "PayPal", path: "/ipn",
			body: func(n int) string {
				const notice = "mc_gross=19.95&protection_eligibility=Eligible&payer_id=LPLWNMTBWMFAY&payment_status=Completed" +
					"&charset=windows-1252&txn_id=%017d&txn_type=express_checkout&mc_currency=USD"
				return fmt.Sprintf(notice, n)
			},
			fields: func(string, int, []byte) []string {
				return []string{
					"Connection: close",
					"User-Agent: PayPal IPN ( https://www.paypal.com/ipn )",
					"Content-Type: application/x-www-form-urlencoded",
				}
			},
		},
		{
			name: "Telegram", path: "/bot/update",
			body: func(n int) string {
				const update = `{"update_id":%d,"message":{"message_id":%d,"from":{"id":1,"is_bot":false},"text":"hello"}}`
				return fmt.Sprintf(update, 10000+n, n)
			},
			fields: func(string, int, []byte) []string {
				return []string{
					"Content-Type: application/json",
					"Connection: keep-alive",
					"X-Telegram-Bot-Api-Secret-Token: secret",
					"Accept-Encoding: gzip, deflate",
				}
			},
		},
		{
			name: "a device", path: "/readings",
			body: func(n int) string { return fmt.Sprintf("sensor=7&t=%d.5", n) },
			fields: func(string, int, []byte) []string {
				return []string{
					"User-Agent: ESP8266HTTPClient",
					"Accept-Encoding: identity;q=1,chunked;q=0.1,*;q=0",
					"Connection: close",
					"Content-Type: application/x-www-form-urlencoded",
				}
			},
		},
		{
			name: "ActivityPub", path: "/inbox",
			body: func(n int) string {
				const note = `{"@context":"https://www.w3.org/ns/activitystreams","id":"https://social.example/%d",` +
					`"type":"Create","actor":"https://social.example/users/a","object":{"type":"Note","content":"hello"}}`
				return fmt.Sprintf(note, n)
			},
			fields: func(host string, n int, body []byte) []string {
				sum := sha256.Sum256(body)
				digest := "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:])
				date := time.Unix(1700000000+int64(n), 0).UTC().Format(http.TimeFormat)
				text := sha256.Sum256([]byte(signedString(host, date, digest)))
				mark, err := rsa.SignPKCS1v15(rand.Reader, inbox, crypto.SHA256, text[:])
				if err != nil {
					panic(err)
				}
				return []string{
					"User-Agent: http.rb/5.1.1 (Mastodon/4.2.1; +https://social.example/)",
					"Date: " + date,
					"Accept-Encoding: gzip",
					"Digest: " + digest,
					"Content-Type: application/activity+json",
					`Signature: keyId="https://social.example/actor#main-key",algorithm="rsa-sha256",` +
						`headers="(request-target) host date digest content-type",` +
						`signature="` + base64.StdEncoding.EncodeToString(mark) + `"`,
					"Connection: Keep-Alive",
				}
			},
		},
	}
}

// signedString is the text that an ActivityPub server signs.
func signedString(host, date, digest string) string {
	const signed = "(request-target): post /inbox\nhost: %s\ndate: %s\ndigest: %s\ncontent-type: application/activity+json"
	return fmt.Sprintf(signed, host, date, digest)
}

// hooks is a service that takes notices and checks their signatures.
type hooks struct {
	inbox *rsa.PublicKey
	mu    sync.Mutex
	got   map[string]map[string]bool // path, body
	wrong []string
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = h.check(r, body)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.wrong = append(h.wrong, err.Error())
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if h.got[r.URL.Path] == nil {
		h.got[r.URL.Path] = map[string]bool{}
	}
	h.got[r.URL.Path][string(body)] = true
	if r.URL.Path == "/inbox" {
		w.WriteHeader(http.StatusAccepted)
	}
}

func (h *hooks) check(r *http.Request, body []byte) error {
	switch r.URL.Path {
	case "/hooks/stripe":
		mark := r.Header.Get("Stripe-Signature")
		if between(mark, "v1=", ",") != signedWith(crypto.SHA256, between(mark, "t=", ",")+"."+string(body)) {
			return fmt.Errorf("Stripe-Signature %q", mark)
		}
	case "/hooks/github":
		if mark := r.Header.Get("X-Hub-Signature-256"); mark != "sha256="+signedWith(crypto.SHA256, string(body)) {
			return fmt.Errorf("X-Hub-Signature-256 %q", mark)
		}
	case "/inbox":
		text := sha256.Sum256([]byte(signedString(r.Host, r.Header.Get("Date"), r.Header.Get("Digest"))))
		mark, err := base64.StdEncoding.DecodeString(between(r.Header.Get("Signature"), `signature="`, `"`))
		if err != nil {
			return err
		}
		return rsa.VerifyPKCS1v15(h.inbox, crypto.SHA256, text[:], mark)
	}
	return nil
}

// posts sends the notices first to last from an address of this machine. A sender without Connection: close keeps its
// connection.
func (s *sender) posts(t *testing.T, gateway, from string, first, last, perSecond int, answer func(*http.Response)) {
	t.Helper()
	host := strings.TrimPrefix(gateway, "http://")
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	pace := time.NewTicker(time.Second / time.Duration(perSecond))
	defer pace.Stop()
	var c net.Conn
	var in *bufio.Reader
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	for n := first; n <= last; n++ {
		if c == nil {
			var err error
			if c, err = dialer.Dial("tcp", host); err != nil {
				t.Error(err)
				return
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			in = bufio.NewReader(c)
		}
		body := s.body(n)
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", s.path, host, len(body)) +
			strings.Join(s.fields(host, n, []byte(body)), "\r\n")
		fmt.Fprintf(c, "%s\r\n\r\n%s", head, body)
		r, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil {
			t.Errorf("notice %d: %v", n, err)
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Errorf("notice %d: %v", n, err)
		}
		r.Body.Close()
		answer(r)
		if r.Close || strings.Contains(head, "Connection: close") {
			c.Close()
			c = nil
		}
		<-pace.C
	}
}

// TestClientsSenders posts notices of payments, pushes, chats, devices and other servers, many a second. Each arrives.
// A sender that is stopped learns that, and sends the notice again later.
func TestClientsSenders(t *testing.T) {
	t.Parallel()
	inbox, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	service := &hooks{inbox: &inbox.PublicKey, got: map[string]map[string]bool{}}
	s := watchService(t, service)
	g := guarded(t, s.URL)
	all := senders(inbox)
	address := func(i int) string { return fmt.Sprintf("127.0.%d.1", 100+i) }
	const notices, perSecond, more = 160, 32, 100
	// every posts notices of all senders at once, and reports what is wrong with an answer once for each sender.
	every := func(first, last, perSecond int, wrong func(r *http.Response) []string) {
		t.Helper()
		var posting sync.WaitGroup
		for i := range all {
			posting.Go(func() {
				faults := map[string]int{}
				all[i].posts(t, g.url, address(i), first, last, perSecond, func(r *http.Response) {
					for _, fault := range wrong(r) {
						faults[fault]++
					}
				})
				for fault, times := range faults {
					t.Errorf("%s: %d times %s", all[i].name, times, fault)
				}
			})
		}
		posting.Wait()
	}
	arrives := func(r *http.Response) []string {
		if r.StatusCode/100 != 2 {
			return []string{r.Status}
		}
		return nil
	}
	every(1, notices, perSecond, arrives)
	for i := range all {
		if got := len(service.got[all[i].path]); got != notices {
			t.Errorf("%s: of %d notices %d arrived", all[i].name, notices, got)
		}
	}
	if len(service.wrong) > 0 {
		t.Errorf("the service refused %d: %.5q", len(service.wrong), service.wrong)
	}
	g.stoppedNone(t)
	// A sender is not charged for answers that it can't give.
	stopped := func(what string, status int) {
		t.Helper()
		s.take()
		every(notices+1, notices+more, 1000, func(r *http.Response) []string { return faultsOf(r, status) })
		if got := s.take(); len(got) > 0 {
			t.Errorf("%s: the service got %d requests", what, len(got))
		}
	}
	for i := range all {
		g.unban(address(i))
		g.ban("ip:"+address(i), "10m")
	}
	stopped("banned by hand", http.StatusForbidden)
	for i := range all {
		g.unban(address(i))
	}
	g.api("POST", "/api/attack", map[string]string{"for": "10m"})
	stopped("under attack", http.StatusTooManyRequests)
	g.api("DELETE", "/api/attack", nil)
	every(notices+1, notices+more, perSecond, arrives)
}

// TestClientsHourOfNotices replays the log of an hour with a notice a second.
func TestClientsHourOfNotices(t *testing.T) {
	t.Parallel()
	for _, agent := range []string{
		"Stripe/1.0 (+https://stripe.com/docs/webhooks)", "GitHub-Hookshot/a1b2c3d",
		"PayPal IPN ( https://www.paypal.com/ipn )", "-",
	} {
		var log bytes.Buffer
		first := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
		for n := range 3600 {
			at := first.Add(time.Duration(n) * time.Second).Format("02/Jan/2006:15:04:05 -0700")
			fmt.Fprintf(&log, "198.51.100.7 - - [%s] \"POST /hooks HTTP/1.1\" 200 2 \"-\" %q\n", at, agent)
		}
		code, out := command(t, "replay", writeFile(t, "access.log", log.String()))
		if want := "0 of 3,600 requests would have been stopped"; code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, wanted %q:\n%s", agent, code, want, tail(out, 2000))
		}
	}
}

// TestClientsNewsboat reads twenty feeds of a site, and asks again and again whether they have changed.
func TestClientsNewsboat(t *testing.T) {
	t.Parallel()
	newsboat := servertest.Need(t, "newsboat")
	const feeds, reloads = 20, 5
	const feed = `<?xml version="1.0"?><rss version="2.0"><channel><title>%[1]s</title><link>http://%[2]s/</link>` +
		`<description>d</description><item><title>one</title><link>http://%[2]s%[1]s/1</link><guid>%[1]s-1</guid>` +
		`<pubDate>Mon, 02 Mar 2026 10:00:00 GMT</pubDate></item></channel></rss>`
	(&tool{
		service: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Content-Type", "application/rss+xml")
			fmt.Fprintf(w, feed, r.URL.Path, r.Host)
		}),
		work: func(t *testing.T, url, dir string, round int) (said string, err error) {
			var urls strings.Builder
			for i := range feeds {
				fmt.Fprintf(&urls, "%s/blog/%d/feed.xml\n", url, i)
			}
			write(t, filepath.Join(dir, "urls"), urls.String())
			write(t, filepath.Join(dir, "config"), "download-retries 1\nreload-threads 4\nerror-log \""+dir+"/errors\"\n")
			for range reloads {
				args := []string{"-C", "config", "-u", "urls", "-c", "cache.db", "-x", "reload", "print-unread"}
				out, failed := runTool(t, dir, nil, newsboat, args...)
				if said += out; failed != nil {
					return said, failed
				}
			}
			news := strings.Contains(said, fmt.Sprintf("%d unread articles", feeds))
			if news != (round == 1) {
				t.Errorf("it has all articles: %v\n%s", news, said)
			}
			errors, _ := os.ReadFile(filepath.Join(dir, "errors"))
			return said + string(errors), nil
		},
		done: func(t *testing.T, got []string) {
			if n := count(got, "GET /blog/"); n != reloads*feeds {
				t.Errorf("the service got %d requests", n)
			}
		},
	}).try(t)
}

// TestClientsMonitor: a monitor asks for the same few pages all the time.
func TestClientsMonitor(t *testing.T) {
	t.Parallel()
	s := watchService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><title>%s</title><p>It works.", r.URL.Path)
	}))
	g := guarded(t, s.URL)
	peopleReadPages(t, g.url)
	s.take()
	at, f := overTCP(t, "HTTP/1.1", g.url, false), &fronts{t: t}
	const rounds = 200
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for i := range rounds {
		for method, agent := range map[string]string{
			"GET":  "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
			"HEAD": "check_http/v2.3.3 (monitoring-plugins 2.3.3)",
		} {
			path := []string{"/", "/shop", "/health"}[i%3]
			got, err := f.send(&at, "127.0.40.1", newRequest(t, method, path, "", "User-Agent", agent))
			if err != nil || got.StatusCode != 200 {
				t.Fatalf("%s %s, the %d. time: %v %d", method, path, i+1, err, got.StatusCode)
			}
		}
		<-pace.C
	}
	if got := s.take(); len(got) != 2*rounds {
		t.Errorf("the service got %d requests", len(got))
	}
	g.stoppedNone(t)
}

// The tests of the files clients_*_test.go run programs that do legitimate work against a service behind a gateway.
// At the gateway's defaults the programs finish their work. When the gateway stops them, they report an error, and the
// service has seen nothing of them.

// toolTime is how long one run of a program may take.
const toolTime = 2 * time.Minute

// tool is a program that works with a service.
type tool struct {
	service http.Handler
	// work runs the program against the service at url in an empty directory. It returns the program's output and the
	// error that the program reports. The rounds are numbered from 1, and each has something to do.
	work func(t *testing.T, url, dir string, round int) (said string, err error)
	// done checks that the service has all of the first round. got are the requests of that round.
	done func(t *testing.T, got []string)
	// people read pages of the service, too: what programs read where people read pages has limits at defaults.
	people bool
}

// saysStopped finds the error in the output of a tool that always exits with 0.
var saysStopped = regexp.MustCompile(`\b(403|429)\b|Forbidden|Too Many Requests`)

// watched is a service that records its requests.
type watched struct {
	*httptest.Server
	mu  sync.Mutex
	got []string // method and path
}

func watchService(t *testing.T, h http.Handler) *watched {
	t.Helper()
	w := &watched{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.got = append(w.got, r.Method+" "+r.URL.Path)
		w.mu.Unlock()
		h.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

// take returns the requests since the last call.
func (w *watched) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.got
	w.got = nil
	return got
}

// count returns how many requests begin with a text.
func count(got []string, begin string) (n int) {
	for _, g := range got {
		if strings.HasPrefix(g, begin) {
			n++
		}
	}
	return n
}

// guarded runs a gateway with its defaults, except that it judges clients of this machine like all others and that an
// attack holds from its first moment.
func guarded(t *testing.T, upstream string) *gateway {
	t.Helper()
	return configured(t, `
processor: {exempt: []}
verdict: {attack: {ease: 0s}}
defaults: {upstream: {urls: [%q]}}
`, upstream)
}

// stopping finds the metrics of stopped requests.
var stopping = regexp.MustCompile(`^antirobot_requests_total\{.*verdict="(robot|blocked)".* [1-9]`)

// stoppedNone fails the test if the gateway has stopped a request or banned a client.
func (g *gateway) stoppedNone(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(string(g.api("GET", "/metrics", nil))) {
		if stopping.MatchString(line) {
			t.Errorf("stopped: %s", line)
		}
	}
	if b := g.api("GET", "/api/bans", nil); bytes.Contains(b, []byte(`"subject"`)) {
		t.Errorf("banned: %s", b)
	}
}

// witness stands between a program and the gateway and checks each answer with faultsOf. The function that it returns
// reports the faults and returns the number of answers.
func witness(t *testing.T, gateway string, status int) (address string, report func() int) {
	t.Helper()
	to, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	n, faults := 0, map[string]int{}
	s := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ModifyResponse: func(r *http.Response) error {
			mu.Lock()
			defer mu.Unlock()
			n++
			for _, fault := range faultsOf(r, status) {
				faults[r.Request.Method+": "+fault]++
			}
			return nil
		},
	})
	t.Cleanup(s.Close)
	return s.URL, func() int {
		mu.Lock()
		defer mu.Unlock()
		for fault, times := range faults {
			t.Errorf("%d times %s", times, fault)
		}
		return n
	}
}

// forPrograms are the media types that a stopped program may get.
var forPrograms = []string{"text/plain", "application/problem+json", "application/xml", "text/xml"}

// faultsOf says why an answer is none for a stopped program.
func faultsOf(r *http.Response, status int) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if r.StatusCode != status {
		wrong("status %d, wanted %d", r.StatusCode, status)
	}
	if r.StatusCode == http.StatusTooManyRequests {
		after := r.Header.Get("Retry-After")
		if seconds, err := strconv.Atoi(after); err != nil || seconds < 1 || seconds > 3600 {
			wrong("429 with Retry-After %q, wanted 1 to 3600", after)
		}
	}
	for _, name := range []string{"X-Antirobot-Verdict", "X-Request-Id"} {
		if r.Header.Get(name) == "" {
			wrong("no %s", name)
		}
	}
	if r.Header.Get("Cache-Control") != "no-store" {
		wrong("Cache-Control %q", r.Header.Get("Cache-Control"))
	}
	if r.Header.Get("Location") != "" {
		wrong("a Location")
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); !slices.Contains(forPrograms, kind) {
		wrong("Content-Type %q", r.Header.Get("Content-Type"))
	}
	return faults
}

// try runs the program at the gateway's defaults, banned by hand, and under attack.
func (p *tool) try(t *testing.T) {
	t.Helper()
	s := watchService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/pages/") {
			p.service.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><title>A page</title><p>text")
	}))
	g := guarded(t, s.URL)
	if p.people {
		peopleReadPages(t, g.url)
	}
	s.take()
	round := 0
	run := func(t *testing.T, url string) (string, error) {
		t.Helper()
		round++
		began := time.Now()
		said, err := p.work(t, url, t.TempDir(), round)
		t.Logf("it took %v", time.Since(began).Round(10*time.Millisecond))
		return said, err
	}
	t.Run("finishes its work", func(t *testing.T) {
		said, err := run(t, g.url)
		if err != nil {
			t.Errorf("%v\n%s", err, tail(said, 1000))
		}
		g.stoppedNone(t)
		p.done(t, s.take())
	})
	stopped := func(t *testing.T, status int) {
		t.Helper()
		at, answers := witness(t, g.url, status)
		s.take()
		said, err := run(t, at)
		if err == nil && !saysStopped.MatchString(said) {
			t.Errorf("it reports no error:\n%s", tail(said, 1000))
		}
		if got := s.take(); len(got) > 0 {
			t.Errorf("the service got %d requests: %.5q", len(got), got)
		}
		if answers() == 0 {
			t.Errorf("it sent no request:\n%s", tail(said, 1000))
		}
	}
	t.Run("banned by hand", func(t *testing.T) {
		g.unban("127.0.0.1")
		g.ban("ip:127.0.0.1", "10m")
		stopped(t, http.StatusForbidden)
	})
	t.Run("under attack", func(t *testing.T) {
		g.unban("127.0.0.1")
		g.api("POST", "/api/attack", map[string]string{"for": "10m"})
		stopped(t, http.StatusTooManyRequests)
	})
}

// unban ends a ban of an address, if there is one.
func (g *gateway) unban(addr string) {
	g.t.Helper()
	g.tryAPI("DELETE", "/api/bans?subject=ip:"+addr, nil)
}

// runTool runs a program in dir, which is its home as well, and returns its output.
func runTool(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	return feedTool(t, dir, env, "", name, args...)
}

// feedTool is runTool with standard input.
func feedTool(t *testing.T, dir string, env []string, in, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), toolTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "http_proxy=", "https_proxy=", "no_proxy=*")
	for _, home := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"} {
		cmd.Env = append(cmd.Env, home+"="+dir)
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
		t.Errorf("%s does not end", name)
	}
	return string(out), err
}

// peopleReadPages has browsers of many networks read pages.
func peopleReadPages(t *testing.T, url string) {
	t.Helper()
	at, f := overTCP(t, "HTTP/1.1", url, false), &fronts{t: t}
	for n := range 20 {
		for page := range 3 {
			r := newRequest(t, "GET", fmt.Sprintf("/pages/%d", page), "", navigations["Firefox"]...)
			got, err := f.send(&at, fmt.Sprintf("127.0.%d.1", 150+n), r)
			if err != nil {
				t.Fatal(err)
			}
			got.must(t, 200, "<!doctype html>")
		}
	}
}
