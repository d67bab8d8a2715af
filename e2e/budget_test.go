package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"antirobot/servertest"
)

// TestBudgetOfDocuments harvests a site at the default settings, from addresses reported by a balancer: pages requested as
// images, as styles and by scripts from one address, and a /48 with a different address for each page. Requests over the
// budget get a challenge that says so.
func TestBudgetOfDocuments(t *testing.T) {
	t.Parallel()
	balanced, file := freePort(t), filepath.Join(t.TempDir(), "antirobot.yaml")
	text := fmt.Sprintf("listen: [{address: %q, proxy_protocol: true}]\nidentity: {trusted_proxies: [127.0.0.1]}\ndefaults: {upstream: {urls: [%q]}}\n",
		balanced, site(t).URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := startWith(t, "serve", "--config", file)
	const chrome = "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36\r\n" +
		"Accept-Encoding: deflate\r\nAccept-Language: en-GB,en;q=0.9\r\n"
	ask := func(addr, path, fields string) string {
		t.Helper()
		c, err := net.Dial("tcp", balanced)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		family, here := "TCP4", "127.0.0.1"
		if strings.Contains(addr, ":") {
			family, here = "TCP6", "::1"
		}
		fmt.Fprintf(c, "PROXY %s %s %s 5555 80\r\nGET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s\r\n", family, addr, here, path, chrome, fields)
		b, _ := io.ReadAll(c)
		return string(b)
	}
	const pages = 500
	for name, make := range map[string]struct {
		addr   func(n int) string
		path   string
		fields string
		most   int // of an hour
	}{
		"image": {func(int) string { return "203.0.113.9" }, "/product/%d", "Accept: image/webp,*/*;q=0.8\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n", 200},
		"style": {func(int) string { return "203.0.114.9" }, "/product/%d/a.css", "Accept: text/css,*/*;q=0.1\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: style\r\n", 200},
		"net48": {
			func(n int) string { return fmt.Sprintf("2001:db8:7:%x::1", n) }, "/product/%d",
			"Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n", 8 * 200,
		},
	} {
		n := pages
		if make.most > pages {
			n = make.most + 200
		}
		got := 0
		for i := range n {
			if strings.Contains(ask(make.addr(i), fmt.Sprintf(make.path, i), make.fields), "site got GET") {
				got++
			}
		}
		t.Logf("%s: %d of %d", name, got, n)
		if got < 1 || got > make.most {
			t.Errorf("%s: the site has answered %d of %d requests, at most %d are in order", name, got, n, make.most)
		}
	}
	if g.metric("antirobot_over_quota") < 1 {
		t.Error("nobody was asked for what was read")
	}
	ledBack(t, func(path, fields string) string {
		return ask("203.0.113.9", path, "Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"+fields)
	})
}

// ledBack checks that a browser that looks like the one client that is asked at its address is led on with a name of its
// own, if it keeps cookies.
func ledBack(t *testing.T, ask func(path, fields string) string) {
	t.Helper()
	sent := ask("/front", "")
	to, _, _ := strings.Cut(after(sent, "\r\nLocation: http://localhost"), "\r\n")
	name, _, _ := strings.Cut(after(sent, "\r\nSet-Cookie: i="), ";")
	if !strings.HasPrefix(to, "/showcaptcha?") || name == "" {
		t.Fatalf("a neighbour is not sent to the captcha with a name: %s", sent)
	}
	if page := ask(to, ""); !strings.Contains(page, "200 OK") || !strings.Contains(page, "checkcaptcha") {
		t.Errorf("who keeps no cookies is not asked: %s", page)
	}
	cookie := "Cookie: i=" + name + "\r\n"
	if back := ask(to, cookie); !strings.Contains(back, "\r\nLocation: http://localhost/front\r\n") {
		t.Errorf("the neighbour is not led back: %s", back)
	}
	if page := ask("/front", cookie); !strings.Contains(page, "site got GET") {
		t.Errorf("the neighbour is stopped: %s", page)
	}
}

// after returns what follows the first occurrence of a text; empty without one.
func after(s, text string) string {
	_, rest, _ := strings.Cut(s, text)
	return rest
}

// TestCurlOnAServiceOfData: a service that answers only JSON is an interface for programs: curl that reads a hundred items at once is
// not limited, and why says what its requests were counted as.
func TestCurlOnAServiceOfData(t *testing.T) {
	t.Parallel()
	servertest.Need(t, "curl")
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"item": %q}`, r.Header.Get("X-Request-Id"))
	}))
	t.Cleanup(service.Close)
	g := configured(t, "processor: {exempt: []}\nservices: [{name: data, upstream: {urls: [%q]}}]\n", service.URL)
	out, err := exec.Command("curl", "-s", "--fail", g.url+"/api/item/[1-200]").Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	items := strings.Split(string(out), `"item": "`)
	if len(items) != 201 {
		t.Fatalf("%d items", len(items)-1)
	}
	id, _, _ := strings.Cut(items[200], `"`)
	eventually(t, "what it counts as", func() bool {
		return strings.Contains(string(g.api("GET", "/api/decisions/"+id, nil)), `"as":"machine read"`)
	})
}
