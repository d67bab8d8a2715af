package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a browser wears.
const (
	plain  = "as it starts" // without a window, and all else as the tool starts it
	named  = "named"        // with the name of a browser that has a window
	hidden = "hidden"       // and with what is often done to hide automation: a switch fewer, one more, and navigator.webdriver false by a script
)

// hide is the script by which drivers hide navigator.webdriver.
const hide = `Object.defineProperty(Navigator.prototype, "webdriver", {get: () => false})`

// chromiumFlags are what a tool of Node.js starts Chromium with.
func chromiumFlags(t *testing.T, dress string) []string {
	t.Helper()
	flags := []string{"--no-first-run", "--window-size=1280,800"}
	for _, name := range quiet {
		flags = append(flags, "--"+name)
	}
	if dress != plain {
		flags = append(flags, "--user-agent="+windowName(t))
	}
	if dress == hidden {
		flags = append(flags, "--disable-blink-features=AutomationControlled")
	}
	return flags
}

// node is a browser that a tool of Node.js drives; testdata/driver.cjs is its other half.
type node struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan string
	is    string
	wrote *strings.Builder
}

// launchNode starts a browser by a tool of Node.js; what is missing comes back as a name.
func launchNode(t *testing.T, tool, dress string) (n *node, lacks string) {
	t.Helper()
	modules, _ := filepath.Abs("../.bin/node_modules")
	module := map[string]string{"playwright": "playwright-core", "selenium": "selenium-webdriver"}[tool]
	if module == "" {
		module = "puppeteer-core"
	}
	if _, err := os.Stat(filepath.Join(modules, module)); err != nil {
		return nil, module
	}
	program := "chromium"
	if strings.Contains(tool, "firefox") {
		program = "firefox-esr"
	}
	needs := []string{"node", program}
	if tool == "selenium" {
		needs = append(needs, "chromedriver")
	}
	paths := map[string]string{}
	for _, name := range needs {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, name
		}
		paths[name] = path
	}
	dir := profile(t)
	want := map[string]any{"tool": tool, "dress": dress, "browser": paths[program], "driver": paths["chromedriver"], "profile": dir, "flags": []string{}}
	if program == "chromium" {
		want["flags"] = chromiumFlags(t, dress)
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	return startNode(t, string(b), modules, dir), ""
}

// startNode runs the other half, and waits until its browser is there.
func startNode(t *testing.T, want, modules, home string) *node {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context())) // a driver that is asked to end its browser does so
	cmd := exec.CommandContext(ctx, "node", "testdata/driver.cjs", want)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules, "HOME="+home, "TMPDIR="+home, "SE_OFFLINE=true")
	n := &node{t: t, lines: make(chan string), wrote: new(strings.Builder)}
	cmd.Stderr = n.wrote
	var err error
	if n.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(n.lines)
		for s := bufio.NewReader(out); ; {
			line, err := s.ReadString('\n')
			if err != nil {
				return
			}
			n.lines <- line
		}
	}()
	t.Cleanup(func() {
		n.in.Close()
		late := time.AfterFunc(patience/3, stop)
		for range n.lines { // until it has ended
		}
		_ = cmd.Wait()
		late.Stop()
		stop()
	})
	n.is, _ = n.answer().(string)
	return n
}

// answer waits for what the other half says.
func (n *node) answer() any {
	n.t.Helper()
	select {
	case line, ok := <-n.lines:
		var a struct {
			Value any
			Error string
		}
		err := json.Unmarshal([]byte(line), &a)
		if !ok || err != nil || a.Error != "" {
			n.t.Fatalf("the driver: %v %s %s", errors.Join(err, n.t.Context().Err()), a.Error, n.wrote)
		}
		return a.Value
	case <-time.After(patience):
		n.t.Fatalf("the driver says nothing: %s", n.wrote)
		return nil
	}
}

func (n *node) say(command ...any) any {
	n.t.Helper()
	b, err := json.Marshal(command)
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := n.in.Write(append(b, '\n')); err != nil {
		n.t.Fatalf("%s: %v %s", b, err, n.wrote)
	}
	return n.answer()
}

func (n *node) open(url string)       { n.say("open", url) }
func (n *node) click(selector string) { n.say("click", selector) }

func (n *node) at() string {
	s, _ := n.say("at").(string)
	return s
}

func (n *node) links() []string { return texts(n.say("read")) }

// texts returns the texts of a list that came as JSON.
func texts(v any) (all []string) {
	list, _ := v.([]any)
	for _, x := range list {
		if s, ok := x.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// leafletPages is how many pages leaflets has besides the first.
const leafletPages = 79

// leaflets is a site of eighty pages that link to each other, with a style sheet, a script and pictures.
func leaflets(t *testing.T) string {
	t.Helper()
	parts := func(w http.ResponseWriter, kind, text string) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = io.WriteString(w, text)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		switch _, err := fmt.Sscanf(r.URL.Path, "/page/%d", &n); {
		case r.URL.Path == "/static/site.css":
			parts(w, "text/css", "body { margin: 2em auto; max-width: 40em; font: 16px sans-serif } nav a { display: inline-block; margin: .3em 1em }")
		case r.URL.Path == "/static/site.js":
			parts(w, "text/javascript", "document.documentElement.dataset.ready = 'yes'")
		case strings.HasPrefix(r.URL.Path, "/pictures/"), r.URL.Path == "/favicon.ico":
			parts(w, "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64"><circle cx="32" cy="32" r="30"/></svg>`)
		case r.URL.Path == "/" || err == nil && n > 0 && n <= leafletPages:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, leaflet(n))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// leaflet is a page that leads to a dozen others.
func leaflet(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html><html lang="en"><head><title>Leaflet %d</title><link rel="stylesheet" href="/static/site.css"><script src="/static/site.js" defer></script></head><body><h1>Leaflet %[1]d</h1><nav>`, n)
	seen := map[int]bool{n: true}
	for i := 1; len(seen) < 13; i++ {
		to := (n*7+i*i*5+i)%leafletPages + 1
		if !seen[to] {
			fmt.Fprintf(&b, `<a href="/page/%d">Leaflet %[1]d</a> `, to)
		}
		seen[to] = true
	}
	b.WriteString("</nav>")
	for i := range 3 {
		fmt.Fprintf(&b, `<p><img src="/pictures/%d.svg" width="64" height="64" alt="">%s</p>`, (n*3+i)%60, strings.Repeat("What stands here is read, or not. ", 30))
	}
	return b.String() + "</body></html>"
}
