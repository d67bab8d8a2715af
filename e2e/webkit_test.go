package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"antirobot/servertest"
)

// engine is a browser other than Chromium, as the W3C's WebDriver drives it.
type engine interface {
	open(url string)
	find(selector string) (id string) // waits until there is one
	keys(selector, text string)
	click(selector string)
	typed(text string)              // wherever the focus is
	eval(script string) any         // the body of a function, whose promise is waited for
	ask(script string) (any, error) // as eval; an error may only mean that the next page is about to come
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
		return "MiniBrowser" // which is in no PATH
	}
	return all[0]
}

// launchWebKit starts it.
func launchWebKit(t *testing.T) *webkit {
	t.Helper()
	driver := servertest.Need(t, "WebKitWebDriver")
	servertest.Need(t, miniBrowser())
	_, port, _ := net.SplitHostPort(freePort(t))
	cmd := exec.CommandContext(t.Context(), driver, "--port="+port)
	dir := profile(t)
	// Without a graphics card, what composes layers is a processor that plays one.
	cmd.Env = append(os.Environ(), "DISPLAY="+newDisplay(t).name, "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "GDK_BACKEND=x11", "NO_AT_BRIDGE=1", "WEBKIT_DISABLE_COMPOSITING_MODE=1")
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

// try sends a command to a path below the session's.
func (w *webkit) try(method, path string, body any) (any, error) {
	text := []byte("{}")
	if body != nil {
		text, _ = json.Marshal(body)
	}
	q, err := http.NewRequest(method, w.session+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r, err := (&http.Client{Timeout: patience}).Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	var a struct{ Value any }
	if err != nil || r.StatusCode != 200 || json.Unmarshal(b, &a) != nil {
		return nil, fmt.Errorf("%s %s %s: %v %s", method, path, text, err, b)
	}
	return a.Value, nil
}

func (w *webkit) say(method, path string, body any) any {
	w.t.Helper()
	v, err := w.try(method, path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *webkit) open(url string) { w.say("POST", "/url", map[string]any{"url": url}) }

func (w *webkit) find(selector string) string {
	w.t.Helper()
	return found(w.t, selector, func(by map[string]any) (any, error) { return w.try("POST", "/element", by) })
}

// found waits until a selector fits an element, and returns its name.
func found(t *testing.T, selector string, find func(by map[string]any) (any, error)) (id string) {
	t.Helper()
	settled(t, selector, func() (bool, error) {
		v, err := find(map[string]any{"using": "css selector", "value": selector})
		e, _ := v.(map[string]any)
		for _, v := range e {
			id, _ = v.(string)
		}
		return id != "", err
	})
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

func (w *webkit) ask(script string) (any, error) {
	return w.try("POST", "/execute/sync", running(script))
}

func (w *webkit) eval(script string) any {
	w.t.Helper()
	return w.say("POST", "/execute/sync", running(script))
}

// running are the parameters of a command that runs a script.
func running(script string) map[string]any {
	return map[string]any{"script": script, "args": []any{}}
}

// strokes are the actions that type a text.
func strokes(text string) map[string]any {
	var all []map[string]string
	for key := range strings.SplitSeq(text, "") {
		all = append(all, map[string]string{"type": "keyDown", "value": key}, map[string]string{"type": "keyUp", "value": key})
	}
	return map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keyboard", "actions": all}}}
}
