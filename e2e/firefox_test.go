package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
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

	"antirobot/servertest"
)

// TestFirefox: Firefox over TLS and HTTP/2 opens a page, and is recognised as what it is; it is asked, answers, and is back on its page with a
// pass.
func TestFirefox(t *testing.T) {
	t.Parallel()
	f := launchFirefox(t)
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
	t    *testing.T // that uses it
	end  func()
	conn net.Conn
	r    *bufio.Reader
	n    int
}

// restedFirefox are those that no test uses at present, as rested are.
var restedFirefox = make(chan *firefox, 64)

// launchFirefox returns Debian's Firefox, without a window, which takes any certificate: one that no test uses any more, and that has forgotten
// what it met, or another one.
func launchFirefox(t *testing.T) (f *firefox) {
	t.Helper()
	path := servertest.Need(t, "firefox-esr")
	select {
	case f = <-restedFirefox:
		f.t = t
	default:
		f = startFirefox(t, path)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			err := f.forget()
			if err == nil {
				restedFirefox <- f
				return
			}
			t.Logf("Firefox does not forget: %v", err)
		}
		f.end()
	})
	return f
}

// startFirefox starts one that outlives the test.
func startFirefox(t *testing.T, path string) *firefox {
	t.Helper()
	dir, err := os.MkdirTemp("", "antirobot-profile-")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(freePort(t))
	write(t, dir+"/user.js", fmt.Sprintf("user_pref(\"marionette.port\", %s);\n", port))
	cmd := exec.Command(path, "--headless", "--no-remote", "--profile", dir, "--marionette", "--remote-allow-system-access")
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f := &firefox{t: t}
	f.end = func() {
		if f.conn != nil {
			f.conn.Close()
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		removed(dir)
	}
	listens := false
	defer func() {
		if !listens {
			f.end()
		}
	}()
	eventually(t, "Firefox listens", func() bool {
		f.conn, err = net.Dial("tcp", "127.0.0.1:"+port)
		return err == nil
	})
	f.r = bufio.NewReader(f.conn)
	if _, err := f.message(); err != nil {
		t.Fatal(err)
	}
	f.say("WebDriver:NewSession", map[string]any{"acceptInsecureCerts": true})
	listens = true
	return f
}

// scripts lets pages run theirs, or not.
func (f *firefox) scripts(run bool) error {
	return f.itself(fmt.Sprintf("Services.prefs.setBoolPref('javascript.enabled', %t)", run))
}

// forget makes f forget what it has met.
func (f *firefox) forget() error {
	if _, err := f.try("WebDriver:Navigate", map[string]any{"url": "about:blank"}); err != nil {
		return err
	}
	if err := f.scripts(true); err != nil {
		return err
	}
	return f.itself("Services.cookies.removeAll(); Services.cache2.clear()")
}

// itself runs a script in the browser, not in its page.
func (f *firefox) itself(script string) error {
	_, err := f.try("Marionette:SetContext", map[string]any{"value": "chrome"})
	if err != nil {
		return err
	}
	_, err = f.ask(script)
	_, back := f.try("Marionette:SetContext", map[string]any{"value": "content"})
	return errors.Join(err, back)
}

// message reads one message.
func (f *firefox) message() (m []json.RawMessage, err error) {
	_ = f.conn.SetReadDeadline(time.Now().Add(patience))
	size, err := f.r.ReadString(':')
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(size, ":"))
	b := make([]byte, n)
	if _, err := io.ReadFull(f.r, b); err != nil {
		return nil, err
	}
	_ = json.Unmarshal(b, &m) // the greeting is no list
	return m, nil
}

func (f *firefox) try(command string, params map[string]any) (any, error) {
	f.n++
	b, _ := json.Marshal([]any{0, f.n, command, params})
	if _, err := fmt.Fprintf(f.conn, "%d:%s", len(b), b); err != nil {
		return nil, err
	}
	m, err := f.message()
	if err != nil {
		return nil, err
	}
	if len(m) != 4 || string(m[2]) != "null" {
		return nil, fmt.Errorf("%s: %s", command, m)
	}
	var result struct{ Value any }
	_ = json.Unmarshal(m[3], &result)
	return result.Value, nil
}

func (f *firefox) say(command string, params map[string]any) any {
	f.t.Helper()
	v, err := f.try(command, params)
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

func (f *firefox) open(url string) { f.say("WebDriver:Navigate", map[string]any{"url": url}) }

// find returns the first element that a selector fits; it works where pages run no scripts.
func (f *firefox) find(selector string) string {
	f.t.Helper()
	return found(f.t, selector, func(by map[string]any) (any, error) { return f.try("WebDriver:FindElement", by) })
}

// keys types into an element.
func (f *firefox) keys(selector, text string) {
	f.t.Helper()
	f.say("WebDriver:ElementSendKeys", map[string]any{"id": f.find(selector), "text": text})
}

func (f *firefox) ask(script string) (any, error) {
	return f.try("WebDriver:ExecuteScript", running(script))
}

func (f *firefox) eval(script string) any {
	f.t.Helper()
	return f.say("WebDriver:ExecuteScript", running(script))
}

func (f *firefox) click(selector string) {
	f.t.Helper()
	f.say("WebDriver:ElementClick", map[string]any{"id": f.find(selector)})
}

func (f *firefox) typed(text string) { f.say("WebDriver:PerformActions", strokes(text)) }
