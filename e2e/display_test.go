package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"antirobot/servertest"
)

// TestNobodyIsTakenForADriver: browsers with a window that nothing drives, whose pointer is moved and pressed by the screen's own server, as a hand does: their pages find
// nothing of a driver, whichever size the window and the page have, and they pass a silent check.
func TestNobodyIsTakenForADriver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, program string
		args          func(profile string) []string
	}{
		{"Chromium", "chromium", windowed("--window-position=40,30", "--window-size=1000,760")},
		{"Chromium, pages at 1.5", "chromium", windowed("--window-size=1100,800", "--force-device-scale-factor=1.5")},
		{"Firefox", "firefox-esr", func(profile string) []string { return []string{"--no-remote", "--profile", profile} }},
		{"WebKit", miniBrowser(), func(string) []string { return []string{"--geometry=1000x700"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, program := range []string{c.program, "Xvfb", "xdotool"} {
				servertest.Need(t, program)
			}
			var pages atomic.Int32
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				if strings.HasPrefix(r.URL.Path, "/page/") {
					n := pages.Add(1)
					fmt.Fprintf(w, `<!doctype html><title>%d</title><a href="/page/%d" style="position:fixed;inset:0">on</a>`, n, n+1)
				}
			}))
			t.Cleanup(site.Close)
			g := start(t, "serve", "--config", configFile(t, `services: [{name: site, upstream: {urls: [%q]}, captcha: {evidence: true, evidence_insert: true, steps: {robot: silent}}}]`, site.URL))
			s := newDisplay(t)
			dir := profile(t)
			s.start(dir, c.program, append(c.args(dir), g.url+"/page/1")...)
			eventually(t, "the first page", func() bool { return pages.Load() > 0 })
			var told session
			eventually(t, "what its pages say", func() bool {
				s.do("mousemove", "300", "350", "mousemove", "360", "420", "mousemove", "420", "520", "click", "1")
				told = g.session("ip:127.0.0.1")
				return pages.Load() > 3 && told.factor("page_automation") != "unknown"
			})
			for _, name := range []string{"page_automation", "page_unpressed", "page_astray", "page_inspected"} {
				if x := told.factor(name); x != "0" {
					t.Errorf("%s is %s", name, x)
				}
			}
			g.ban("ip:127.0.0.1", "1h")
			eventually(t, "the check", func() bool {
				s.do("key", "F5") // no click, as the page of the check has a button for digits
				return g.metric("antirobot_captcha_shown_total", `form="page"`) > 0
			})
			eventually(t, "it has passed the check", func() bool { return g.metric("antirobot_captcha_answers_total", `result="solved"`) == 1 })
		})
	}
}

// TestHiddenDriverShows: a driven browser that says nothing of it, with a page larger than its window: by its mouse, by where that is, and by the inspector that drives it.
func TestHiddenDriverShows(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>%s</title><a id="next" href="%[1]son" style="position:fixed;top:500px">on</a>`, r.URL.Path)
	}))
	t.Cleanup(site.Close)
	g := configured(t, `services: [{name: site, upstream: {urls: [%q]}, captcha: {evidence: true, evidence_insert: true}}]`, site.URL)
	ctx := browser(t, withWindow(t), chromedp.Flag("enable-automation", false), chromedp.Flag("disable-blink-features", "AutomationControlled"))
	run(t, ctx, "look around", chromedp.EmulateViewport(1300, 1000), chromedp.Navigate(g.url+"/"))
	for range 3 {
		run(t, ctx, "go on", chromedp.WaitVisible("#next"), chromedp.MouseEvent(input.MouseMoved, 200, 100), chromedp.Click("#next"))
	}
	var told session
	eventually(t, "what its pages say", func() bool {
		told = g.session("ip:127.0.0.1")
		return told.factor("page_unpressed") == "1"
	})
	for name, want := range map[string]string{"page_automation": "0", "page_astray": "1", "page_inspected": "1"} {
		if x := told.factor(name); x != want {
			t.Errorf("%s is %s, want %s", name, x, want)
		}
	}
}

// windowed are the arguments of Chromium with a window of its own.
func windowed(more ...string) func(profile string) []string {
	return func(profile string) []string {
		args := []string{"--no-first-run", "--no-default-browser-check", "--user-data-dir=" + profile, "--disable-features=" + unused}
		for _, name := range quiet {
			args = append(args, "--"+name)
		}
		return append(args, more...)
	}
}

// display is a screen without a monitor.
type display struct {
	t    *testing.T
	name string
}

// newDisplay starts an X server, which chooses its number itself and says it once it is there.
func newDisplay(t *testing.T) *display {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), servertest.Need(t, "Xvfb"), "-displayfd", "3", "-screen", "0", "1400x1000x24", "-nolisten", "tcp")
	cmd.ExtraFiles = []*os.File{w}
	runs(t, cmd)
	w.Close()
	number, err := io.ReadAll(io.LimitReader(r, 8))
	r.Close()
	if err != nil && len(number) == 0 {
		t.Fatalf("the screen's number: %v", err)
	}
	return &display{t, ":" + strings.TrimSpace(string(number))}
}

// start starts a browser that shows itself on the screen.
func (s *display) start(profile, program string, args ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "DISPLAY="+s.name, leavesIn(profile))
	runs(s.t, cmd)
}

// runs starts a program that ends with the test.
func runs(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// do moves the pointer and presses, see xdotool(1).
func (s *display) do(args ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "xdotool", args...)
	cmd.Env = append(os.Environ(), "DISPLAY="+s.name)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("xdotool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
