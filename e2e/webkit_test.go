package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// engine is a browser other than Chromium, as the W3C's WebDriver drives it.
type engine interface {
	open(url string)
	find(selector string) (id string) // fails the test if there is none
	keys(selector, text string)
	click(selector string)
	typed(text string)      // wherever the focus is
	eval(script string) any // the body of a function, whose promise is waited for
}

// webkit is WebKitGTK's small browser, on a screen of its own.
type webkit struct {
	t       *testing.T
	session string // its address
}

// miniBrowser finds WebKitGTK's small browser.
func miniBrowser() string {
	all, _ := filepath.Glob("/usr/lib/*/webkit2gtk-4.1/MiniBrowser")
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// launchWebKit starts it; nil: there is none.
func launchWebKit(t *testing.T) *webkit {
	t.Helper()
	driver, err := exec.LookPath("WebKitWebDriver")
	if err != nil || miniBrowser() == "" {
		return nil
	}
	_, port, _ := net.SplitHostPort(freePort(t))
	cmd := exec.CommandContext(t.Context(), driver, "--port="+port)
	dir := profile(t)
	cmd.Env = append(os.Environ(), "DISPLAY="+newDisplay(t).name, "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "GDK_BACKEND=x11", "NO_AT_BRIDGE=1")
	runs(t, cmd)
	w := &webkit{t: t, session: "http://127.0.0.1:" + port + "/session"}
	eventually(t, "WebKit's driver listens", func() bool {
		r, err := http.Get("http://127.0.0.1:" + port + "/status")
		if err != nil {
			return false
		}
		r.Body.Close()
		return true
	})
	args := map[string]any{"binary": miniBrowser(), "args": []string{"--automation"}}
	s, _ := w.say("POST", "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{"acceptInsecureCerts": true, "webkitgtk:browserOptions": args}}}).(map[string]any)
	id, _ := s["sessionId"].(string)
	w.session += "/" + id
	return w
}

// say sends a command to a path below the session's.
func (w *webkit) say(method, path string, body any) any {
	w.t.Helper()
	text := []byte("{}")
	if body != nil {
		text, _ = json.Marshal(body)
	}
	q, err := http.NewRequest(method, w.session+path, bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := (&http.Client{Timeout: patience}).Do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	var a struct{ Value any }
	if err != nil || r.StatusCode != 200 || json.Unmarshal(b, &a) != nil {
		w.t.Fatalf("%s %s %s: %v %s", method, path, text, err, b)
	}
	return a.Value
}

func (w *webkit) open(url string) { w.say("POST", "/url", map[string]any{"url": url}) }

func (w *webkit) find(selector string) (id string) {
	w.t.Helper()
	v, _ := w.say("POST", "/element", map[string]any{"using": "css selector", "value": selector}).(map[string]any)
	for _, v := range v {
		id, _ = v.(string)
	}
	return id
}

func (w *webkit) keys(selector, text string) {
	w.t.Helper()
	w.say("POST", "/element/"+w.find(selector)+"/value", map[string]any{"text": text})
}

func (w *webkit) click(selector string) {
	w.t.Helper()
	w.say("POST", "/element/"+w.find(selector)+"/click", nil)
}

func (w *webkit) typed(text string) {
	w.t.Helper()
	w.say("POST", "/actions", strokes(text))
}

func (w *webkit) eval(script string) any {
	return w.say("POST", "/execute/sync", map[string]any{"script": script, "args": []any{}})
}

// strokes are the actions that type a text.
func strokes(text string) map[string]any {
	var all []map[string]string
	for key := range strings.SplitSeq(text, "") {
		all = append(all, map[string]string{"type": "keyDown", "value": key}, map[string]string{"type": "keyUp", "value": key})
	}
	return map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keyboard", "actions": all}}}
}
