package e2e

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestFormIsAnsweredFromItsOwnPage: on plain http, where browsers send no fetch metadata, a form survives its captcha,
// and a page of a sibling site can't make the same browser send one.
func TestFormIsAnsweredFromItsOwnPage(t *testing.T) {
	t.Parallel()
	g := serve(t, formSite(t))
	port := g.url[strings.LastIndexByte(g.url, ':'):]
	shop := "http://shop.test" + port
	var stolen string // a page that sends the form whose fields were copied out of the captcha page
	sibling := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, stolen)
	}))
	t.Cleanup(sibling.Close)
	ctx := shell(t, chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1, MAP shop.test 127.0.0.1"))
	write := func(text string) {
		t.Helper()
		_, _ = g.tryAPI("DELETE", "/api/bans?subject=ip:127.0.0.1", nil) // there is none at first
		run(t, ctx, "write", chromedp.Navigate(shop+"/write"), chromedp.SendKeys("input[name=name]", "Anna"), chromedp.SendKeys("textarea", text))
		g.ban("ip:127.0.0.1", "10m")
		run(t, ctx, "send", chromedp.Click("#send"), chromedp.WaitVisible(field))
	}
	write("the sibling's")
	saved := value[string](t, ctx, `document.querySelector('input[name=saved]').value`)
	key := value[string](t, ctx, `document.querySelector('input[name=key]').value`)
	stolen = fmt.Sprintf(`<!doctype html><title>Sibling</title><form method=post action="%s/checkcaptcha">
		<input name=saved value="%s"><input name=key value="%s"><input name=rep value="%s"></form><script>document.forms[0].submit()</script>`,
		shop, html.EscapeString(saved), html.EscapeString(key), testAnswer)
	var text string
	run(t, ctx, "a sibling sends it", chromedp.Navigate("http://evil.shop.test"+sibling.URL[strings.LastIndexByte(sibling.URL, ':'):]),
		chromedp.WaitVisible(`//h1[contains(.,"could not be kept")]`), chromedp.Text("body", &text))
	if strings.Contains(text, "the sibling's") {
		t.Errorf("the form was sent on:\n%s", text)
	}
	write("my own")
	var got string
	run(t, ctx, "answer", chromedp.SendKeys(field, testAnswer+"\r"), chromedp.Text("#got", &got))
	if want := "my own from Anna, cookie true"; got != want {
		t.Errorf("the service got %q, wanted %q", got, want)
	}
}

// TestFormGoesOnFromItsOriginAlone tests the binary itself: sealed Origin and the visitor's credentials go to the service
// only with an answer from the page that asked.
func TestFormGoesOnFromItsOriginAlone(t *testing.T) {
	t.Parallel()
	type arrival struct{ origin, authorization, text string }
	var arrived []arrival
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived = append(arrived, arrival{r.Header.Get("Origin"), r.Header.Get("Authorization"), r.FormValue("text")})
		fmt.Fprint(w, "sent")
	}))
	t.Cleanup(service.Close)
	g := serve(t, service.URL)
	g.ban("ip:127.0.0.1", "10m")
	answer := func(header ...string) *response {
		t.Helper()
		v := visitor(t)
		page := v.do("POST", g.url+"/post", "text=hello", "Content-Type", "application/x-www-form-urlencoded", "Origin", g.url).must(t, 200, "is kept")
		fields := url.Values{"rep": {testAnswer}}
		for _, name := range []string{"saved", "key"} {
			_, rest, _ := strings.Cut(page.body, `name="`+name+`" value="`)
			fields.Set(name, html.UnescapeString(rest[:strings.IndexByte(rest, '"')]))
		}
		all := append([]string{"Content-Type", "application/x-www-form-urlencoded", "Authorization", "Basic c2VjcmV0"}, header...)
		r := v.do("POST", g.url+"/checkcaptcha", fields.Encode(), all...)
		if r.StatusCode == 307 { // the form comes back to its own address, which a reload repeats
			to := r.Header.Get("Location")
			r = v.do("POST", to, fields.Encode(), all...)
			v.do("POST", to, fields.Encode(), all...).must(t, 409, "sent already")
		}
		return r
	}
	for what, header := range map[string][]string{
		"sibling":    {"Sec-Fetch-Site", "same-site", "Origin", "http://evil.127.0.0.1"},
		"older":      {"Origin", "http://evil.example"},
		"no origin":  {"Origin", "null"},
		"other port": {"Origin", "http://127.0.0.1:1"},
		"over tls":   {"Origin", strings.Replace(g.url, "http:", "https:", 1)},
		"typed":      {"Sec-Fetch-Site", "none", "Origin", g.url},
		"in a row":   {"Sec-Fetch-Site", "same-origin, cross-site", "Origin", g.url},
		"case":       {"Sec-Fetch-Site", "Same-Origin", "Origin", g.url}, // no browser writes so
		"two":        {"Origin", g.url + ", http://evil.example"},
		"userinfo":   {"Origin", strings.Replace(g.url, "//", "//evil.example@", 1)},
		"host of":    {"Origin", g.url + "@evil.example"},
		"dot":        {"Origin", strings.Replace(g.url, "127.0.0.1", "127.0.0.1.", 1)},
		"below":      {"Origin", strings.Replace(g.url, "127.0.0.1", "127.0.0.1.evil.example", 1)},
		"no port":    {"Origin", "http://127.0.0.1"},
		"referer":    {"Referer", "http://evil.example/" + g.url + "/"},
		"as host":    {"Referer", g.url + "@evil.example/"},
		"no scheme":  {"Referer", strings.TrimPrefix(g.url, "http:") + "/"},
		"file":       {"Origin", "file://"},
	} {
		if r := answer(header...); r.StatusCode != 410 || len(arrived) > 0 {
			t.Fatalf("%s: status %d, at the service %v", what, r.StatusCode, arrived)
		}
	}
	answer("Origin", g.url).must(t, 200, "sent")
	answer("Sec-Fetch-Site", "same-origin", "Origin", "null").must(t, 200, "sent")
	answer().must(t, 200, "sent") // no browser of today; what it adds by itself stays here
	want := []arrival{{g.url, "Basic c2VjcmV0", "hello"}, {g.url, "Basic c2VjcmV0", "hello"}, {g.url, "", "hello"}}
	if fmt.Sprint(arrived) != fmt.Sprint(want) {
		t.Errorf("at the service: %v, wanted %v", arrived, want)
	}
}
