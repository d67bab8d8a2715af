package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
)

// site is a service behind the gateway that says what it got.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if strings.HasPrefix(r.URL.Path, "/pictures/") { // a part of a page is what the answer proves to be one
			w.Header().Set("Content-Type", "image/png")
		}
		w.Header().Set("X-Served-By", "site")
		fmt.Fprintf(w, "site got %s %s\n", r.Method, r.URL.RequestURI())
		for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "X-Request-Id", "X-Forwarded-Proto", "X-Forwarded-Host", "Content-Type", "Origin", "Cookie", "X-Antirobot-Client"} {
			if v := r.Header.Values(name); len(v) > 0 {
				fmt.Fprintf(w, "%s: %s\n", name, strings.Join(v, " | "))
			}
		}
		fmt.Fprintf(w, "body: %s\n", body)
	}))
	t.Cleanup(s.Close)
	return s
}

// client is a visitor with a cookie jar that does not follow redirects.
type client struct {
	t *testing.T
	http.Client
	header http.Header
}

func visitor(t *testing.T) *client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, header: http.Header{}}
	c.Jar = jar
	c.Timeout = patience
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0")
	c.header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	c.header.Set("Accept-Language", "en") // Go itself adds Accept-Encoding
	return c
}

// browserLines are the fields of a browser in a request that a test writes itself.
const browserLines = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0\r\n" +
	"Accept: text/html\r\nAccept-Language: en\r\nAccept-Encoding: deflate\r\n"

// asBrowser gives a request the fields of a browser; Go itself adds Accept-Encoding.
func asBrowser(r *http.Request) {
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0")
	r.Header.Set("Accept-Language", "en")
}

// response is an answer whose body was read.
type response struct {
	*http.Response
	body string
}

func (c *client) do(method, url, body string, header ...string) *response {
	c.t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for k, v := range c.header {
		req.Header[k] = v
	}
	for i := 0; i+1 < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	if (req.Header.Get("X-Requested-With") != "" || req.Header.Get("Sec-Fetch-Mode") == "cors") && req.Header.Get("Referer") == "" && req.Header.Get("Origin") == "" {
		req.Header.Set("Referer", "http://"+req.Host+"/page") // a script calls from a page
	}
	res, err := c.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return &response{res, string(b)}
}

func (c *client) get(url string, header ...string) *response {
	c.t.Helper()
	return c.do("GET", url, "", header...)
}

// must fails the test unless the answer has that status and its body contains the text.
func (r *response) must(t *testing.T, status int, contains string) *response {
	t.Helper()
	if r.StatusCode != status || !strings.Contains(r.body, contains) {
		t.Fatalf("%s %s: got %d %v\n%s\nwanted %d with %q", r.Request.Method, r.Request.URL, r.StatusCode, r.Header, tail(r.body, 2000), status, contains)
	}
	return r
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
