package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestFirefox: Firefox over TLS and HTTP/2 opens a page, and is recognised as what it is; it is asked, answers, and is back on its page with a
// pass.
func TestFirefox(t *testing.T) {
	t.Parallel()
	f := launchFirefox(t)
	if f == nil {
		missing(t, "firefox-esr")
	}
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<p>GET %s", r.URL.Path)
	}))
	t.Cleanup(pages.Close)
	g, secure, _ := http2Gateway(t, pages.URL, "")
	url := "https://" + secure
	text := func() string {
		s, _ := f.eval("return document.body?.innerText ?? ''").(string)
		return s
	}
	f.open(url + "/first")
	if s := text(); !strings.Contains(s, "GET /first") {
		t.Fatalf("the page says %s", s)
	}
	line := g.logs.find(func(s string) bool { return strings.Contains(s, `"path":"/first"`) })
	var access struct {
		RequestID string `json:"request_id"`
		JA4       string `json:"ja4"`
		H2        string `json:"h2"`
	}
	if err := json.Unmarshal([]byte(line), &access); err != nil {
		t.Fatalf("the access line %q: %v", line, err)
	}
	if !strings.HasPrefix(access.JA4, "t13") || !strings.Contains(access.JA4, "h2_") || !strings.HasSuffix(access.H2, "|m,p,a,s") {
		t.Errorf("its handshake and frames: %+v", access)
	}
	_, out := command(t, "why", access.RequestID, "--admin", g.admin, "--data-dir", g.dir)
	if !strings.Contains(out, "human: nothing spoke against it") || strings.Contains(out, "contradicts") || strings.Contains(out, ": of ") {
		t.Errorf("it is not taken for what it is:\n%s", out)
	}
	var s session
	eventually(t, "its session", func() bool {
		s = g.session("ip:127.0.0.1")
		return s.Claims != ""
	})
	if s.Claims != "firefox" {
		t.Errorf("it claims to be %s", s.Claims)
	}
	for _, name := range []string{"order_false", "fetch_false", "fetch_missing", "hello_false", "browser_no_language", "browser_accepts_any", "misfits"} {
		if x := s.factor(name); x != "0" {
			t.Errorf("%s is %s", name, x)
		}
	}
	g.ban("ip:127.0.0.1", "10m")
	f.open(url + "/second")
	f.eval(`document.querySelector("input[name=rep]").value = "` + testAnswer + `"; document.querySelector("#challenge .go").click()`)
	eventually(t, "it is back", func() bool { return strings.Contains(text(), "GET /second") })
	f.open(url + "/third")
	if s := text(); !strings.Contains(s, "GET /third") {
		t.Errorf("with its pass it gets %s", s)
	}
}

// firefox is driven by Marionette, which speaks lengths and JSON over a socket.
type firefox struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
	n    int
}

// launchFirefox starts Debian's Firefox, without a window, which takes any certificate, with lines of a user.js; nil: there is none.
func launchFirefox(t *testing.T, prefs ...string) *firefox {
	t.Helper()
	path, err := exec.LookPath("firefox-esr")
	if err != nil {
		return nil
	}
	dir := profile(t)
	_, port, _ := net.SplitHostPort(freePort(t))
	write(t, dir+"/user.js", fmt.Sprintf("user_pref(\"marionette.port\", %s);\n%s\n", port, strings.Join(prefs, "\n")))
	cmd := exec.CommandContext(t.Context(), path, "--headless", "--no-remote", "--profile", dir, "--marionette")
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	f := &firefox{t: t}
	eventually(t, "Firefox listens", func() bool {
		f.conn, err = net.Dial("tcp", "127.0.0.1:"+port)
		return err == nil
	})
	t.Cleanup(func() { f.conn.Close() })
	f.r = bufio.NewReader(f.conn)
	f.message()
	f.say("WebDriver:NewSession", map[string]any{"acceptInsecureCerts": true})
	return f
}

// message reads one message.
func (f *firefox) message() (m []json.RawMessage) {
	f.t.Helper()
	_ = f.conn.SetReadDeadline(time.Now().Add(patience))
	size, err := f.r.ReadString(':')
	if err != nil {
		f.t.Fatal(err)
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(size, ":"))
	b := make([]byte, n)
	if _, err := io.ReadFull(f.r, b); err != nil {
		f.t.Fatal(err)
	}
	_ = json.Unmarshal(b, &m) // the greeting is no list
	return m
}

func (f *firefox) say(command string, params map[string]any) (v any) {
	f.t.Helper()
	f.n++
	b, _ := json.Marshal([]any{0, f.n, command, params})
	if _, err := fmt.Fprintf(f.conn, "%d:%s", len(b), b); err != nil {
		f.t.Fatal(err)
	}
	m := f.message()
	if len(m) != 4 || string(m[2]) != "null" {
		f.t.Fatalf("%s: %s", command, m)
	}
	var result struct{ Value any }
	_ = json.Unmarshal(m[3], &result)
	return result.Value
}

func (f *firefox) open(url string) { f.say("WebDriver:Navigate", map[string]any{"url": url}) }

// find returns the first element that a selector fits; it works where pages run no scripts.
func (f *firefox) find(selector string) (id string) {
	f.t.Helper()
	v, _ := f.say("WebDriver:FindElement", map[string]any{"using": "css selector", "value": selector}).(map[string]any)
	for _, v := range v {
		id, _ = v.(string)
	}
	return id
}

// keys types into an element.
func (f *firefox) keys(selector, text string) {
	f.t.Helper()
	f.say("WebDriver:ElementSendKeys", map[string]any{"id": f.find(selector), "text": text})
}

func (f *firefox) eval(script string) any {
	return f.say("WebDriver:ExecuteScript", map[string]any{"script": script, "args": []any{}})
}

func (f *firefox) click(selector string) {
	f.t.Helper()
	f.say("WebDriver:ElementClick", map[string]any{"id": f.find(selector)})
}

func (f *firefox) typed(text string) { f.say("WebDriver:PerformActions", strokes(text)) }
