package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/proxy/h1"
	"antirobot/proxy/upstream"
	"antirobot/request"
)

// robotsServed is a gateway on a listener in front of a service, without the rest of the process.
type robotsServed struct {
	t    *testing.T
	e    *checkEnv
	g    *Gateway
	addr string
}

func serveSite(t *testing.T, site http.HandlerFunc) *robotsServed {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	e := newCheckEnv(t, nil)
	behind := httptest.NewServer(site)
	t.Cleanup(behind.Close)
	set := metrics.NewSet()
	cfg := upstream.DefaultConfig()
	cfg.URLs, cfg.Service = []string{behind.URL}, "shop"
	group, err := upstream.New(cfg, upstream.Deps{Log: zerolog.Nop(), Metrics: set})
	must(err)
	t.Cleanup(func() { _ = group.Close() })
	was := e.check.core.snap.Load()
	known := was.Router.services[0]
	router, err := NewRouter([]*Service{{
		Name: "shop", Hosts: []string{"shop.example", "www.shop.example"}, Verdict: known.Verdict,
		Identity: known.Identity,
		Captcha:  known.Captcha, Config: DefaultServiceConfig(), Upstream: group,
	}})
	must(err)
	d := e.check.core.deps
	d.Metrics = set
	g, err := New(&Snapshot{Router: router, Captcha: was.Captcha}, d)
	must(err)
	s, err := h1.NewServer(h1.DefaultConfig(), h1.Deps{Handler: g, Log: zerolog.Nop(), Metrics: set})
	must(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	ended := make(chan struct{})
	go func() { _ = s.Serve(ln, h1.ListenerOptions{}); close(ended) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		<-ended
	})
	return &robotsServed{t, e, g, ln.Addr().String()}
}

// get requests a target, and returns the answer with its framing and body.
func (s *robotsServed) get(host, target string) (*http.Response, string) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(c, "GET "+target+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.ReadAll(c) // until the request has ended
	return res, string(body)
}

// names reports whether the service knows a target as a sitemap.
func (s *robotsServed) names(host, target string) bool {
	path, query, _ := strings.Cut(target, "?")
	return s.g.snap.Load().Router.services[0].isNamedSitemap(&request.View{
		Host: []byte(host), Target: []byte(target), Path: []byte(path), Query: []byte(query),
	})
}

// TestSitemapsOfRobots: the gateway knows the sitemaps that robots.txt names on the service's own hosts once a client
// has read it, and does not change the answer.
func TestSitemapsOfRobots(t *testing.T) {
	const text = "User-agent: *\r\nDisallow: /private\n\nsitemap : https://shop.example/map.xml\r\n" +
		"Sitemap: https://WWW.shop.example:443/index.php?route=sitemap # for all\nSITEMAP: /relative.xml\n" +
		"Sitemap: https://other.example/theirs.xml\nSitemap: https://shop.example/\n" +
		"Sitemap: https://u@shop.example/user.xml\n" +
		"Sitemap: javascript:alert(1)\nSitemap: ftp://shop.example/f.xml\nAllow: /not.xml"
	known := []string{"shop.example/map.xml", "www.shop.example/index.php?route=sitemap", "shop.example/relative.xml"}
	unknown := []string{
		"shop.example/", "shop.example/theirs.xml", "other.example/theirs.xml", "shop.example/user.xml",
		"shop.example/f.xml", "shop.example/not.xml", "shop.example/map.xml?page=2",
		"shop.example/index.php?route=sitemap", "www.shop.example/index.php", "www.shop.example/map.xml",
	}
	type answer struct {
		name   string
		reads  bool
		answer http.HandlerFunc
	}
	with := func(name, value string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(name, value)
			_, _ = io.WriteString(w, text)
		}
	}
	for _, a := range []answer{
		{"with its length", true, with("Content-Length", fmt.Sprint(len(text)))},
		{"in chunks", true, func(w http.ResponseWriter, _ *http.Request) {
			for i := range text {
				_, _ = io.WriteString(w, text[i:i+1])
				w.(http.Flusher).Flush()
			}
		}},
		{"encoded", false, with("Content-Encoding", "br")},
		{"a page", false, with("Content-Type", "text/html")},
		{"missing", false, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			_, _ = io.WriteString(w, text)
		}},
		{"cut short", false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			_, _ = io.WriteString(w, text[:len(text)-3])
		}},
	} {
		t.Run(a.name, func(t *testing.T) {
			s := serveSite(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/robots.txt" {
					_, _ = io.WriteString(w, text)
					return
				}
				a.answer(w, r)
			})
			s.get("shop.example", "/page")
			for _, u := range known {
				if host, target, _ := strings.Cut(u, "/"); s.names(host, "/"+target) {
					t.Fatalf("%s is known before robots.txt was read", u)
				}
			}
			if a.name == "cut short" {
				c, err := net.Dial("tcp", s.addr)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.WriteString(c, "GET /robots.txt HTTP/1.1\r\nHost: shop.example\r\n\r\n")
				_, _ = io.ReadAll(c)
				_ = c.Close()
			} else if res, body := s.get("shop.example", "/robots.txt"); body != text ||
				a.name == "with its length" && res.ContentLength != int64(len(text)) {
				t.Errorf("it is passed on with length %d as %q", res.ContentLength, body)
			}
			for _, u := range known {
				if host, target, _ := strings.Cut(u, "/"); s.names(host, "/"+target) != a.reads {
					t.Errorf("%s is known: %v, wanted %v", u, !a.reads, a.reads)
				}
			}
			for _, u := range unknown {
				if host, target, _ := strings.Cut(u, "/"); s.names(host, "/"+target) {
					t.Errorf("%s is taken for a sitemap", u)
				}
			}
		})
	}
}

// TestSitemapsAreBounded: neither a long robots.txt nor many hosts make the gateway remember more than its limits.
func TestSitemapsAreBounded(t *testing.T) {
	all := func(sitemapURL) bool { return true }
	var long strings.Builder
	for i := 0; long.Len() < 2*maxRobots; i++ {
		fmt.Fprintf(&long, "Sitemap: /map-%d.xml\n", i)
	}
	if urls := sitemapsIn([]byte(long.String()), "a", all); len(urls) != maxSitemaps {
		t.Errorf("%d sitemaps of one robots.txt", len(urls))
	}
	r := robotsReader{text: true}
	for range 5 {
		r.copy(make([]byte, maxRobots/2))
	}
	if len(r.body) != maxRobots {
		t.Errorf("%d bytes are read", len(r.body))
	}
	cut := append([]byte("Sitemap: /first.xml\n"), make([]byte, maxRobots-39)...)
	if urls := sitemapsIn(append(cut, "\nSitemap: /cut-here"...), "a", all); len(urls) != 1 {
		t.Errorf("what the limit may have cut is read: %v", urls)
	}
	s := Service{metrics: &serviceMetrics{}}
	m := &s.metrics.sitemaps
	at := time.Now()
	for i := range 10 * maxRobotsHosts {
		m.note(fmt.Sprint("host-", i), at.Add(time.Duration(i)), []sitemapURL{{fmt.Sprint("host-", i), "/map.xml"}})
	}
	if n := len(*m.named.Load()); n != maxRobotsHosts {
		t.Errorf("the robots.txt of %d hosts are kept", n)
	}
	v := &request.View{Host: []byte("host-159"), Target: []byte("/map.xml"), Path: []byte("/map.xml")}
	if !s.isNamedSitemap(v) {
		t.Error("the latest is not known")
	}
	if raceEnabled {
		return
	}
	if n := testing.AllocsPerRun(100, func() { s.isNamedSitemap(v) }); n != 0 {
		t.Errorf("a look-up allocates %v times", n)
	}
}

// FuzzSitemapsIn: the URLs that are read from any robots.txt can be requested, and stay within the limits.
func FuzzSitemapsIn(f *testing.F) {
	f.Add([]byte("User-agent: *\nSitemap: https://shop.example/map.xml?a=b#c\r\nsitemap:/x\n"))
	f.Add([]byte("\xef\xbb\xbfSITEMAP : //shop.example/%zz\rSitemap: http://[::1]:80/\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		urls := sitemapsIn(text, "shop.example", func(sitemapURL) bool { return true })
		if len(urls) > maxSitemaps {
			t.Fatalf("%d sitemaps", len(urls))
		}
		for _, u := range urls {
			if len(u.target) < 2 || u.target[0] != '/' || u.host != strings.ToLower(u.host) ||
				strings.ContainsAny(u.target, "\r\n") {
				t.Fatalf("%+v", u)
			}
		}
	})
}
