package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const logoSVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 28 28"><circle cx="14" cy="14" r="13" fill="#7a1fa2"/></svg>`

// brandConfig is a service with its own branding.
func brandConfig(t *testing.T, upstream, dir string) string {
	t.Helper()
	writeInto(t, filepath.Join(dir, "logo.svg"), logoSVG)
	if err := os.MkdirAll(filepath.Join(dir, "own"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "antirobot.yaml")
	writeInto(t, file, fmt.Sprintf(`
services:
  - name: shop
    hosts: [127.0.0.1]
    upstream: {urls: [%q]}
    captcha:
      branding:
        name: Tea & Things
        logo: %s
        accent: "#7a1fa2"
        texts:
          - {lang: en, key: challenge_heading, text: "Tea for <you>?"}
          - {lang: ru, key: challenge_heading, text: "Вам чаю?"}
        templates: %s
  - name: plain
    hosts: ["*"]
    upstream: {urls: [%[1]q]}
`, upstream, filepath.Join(dir, "logo.svg"), filepath.Join(dir, "own")))
	return file
}

func writeInto(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBranding: the service's own name, logo, colours, texts and page appear, and none of them at its neighbour's.
func TestBranding(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeInto(t, filepath.Join(dir, "own", "pages", "message.html"), `<!DOCTYPE html><html lang="[[@tag]]"><head><title>[[@message_title]]</title>{{.Brand.Head}}</head>
<body><h1>Our own: [[@message_heading]]</h1><p>[[@message_text]] [[@message_help]]</p><code>{{.RequestID}}</code>{{if .Retry}}<a href="{{.Retry}}">[[try_again]]</a>{{end}}</body></html>`)
	file := brandConfig(t, site(t).URL, dir)
	if out, err := checkConfig(t, file); err != nil || !strings.Contains(out, "good") {
		t.Fatalf("%v %s", err, out)
	}
	g := start(t, "serve", "--config", file)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	page := v.get(v.get(g.url+"/").must(t, 302, "").Header.Get("Location"), "Accept-Language", "en").must(t, 200, "Tea for &lt;you&gt;?")
	for _, want := range []string{"Tea &amp; Things", "data:image/svg", "--accent:#7a1fa2"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page.body, "Are you a person?") {
		t.Error("the text was not replaced")
	}
	v.get(v.get(g.url+"/").must(t, 302, "").Header.Get("Location"), "Accept-Language", "ru").must(t, 200, "Вам чаю?")
	v.get(g.url+"/captcha/texts?lang=en").must(t, 200, "Tea for")
	v.get(g.url+"/captcha/nothing", "Accept-Language", "en").must(t, 404, "Our own: There is nothing here")

	other := strings.Replace(g.url, "127.0.0.1", "localhost", 1)
	page = v.get(v.get(other+"/").must(t, 302, "").Header.Get("Location"), "Accept-Language", "en").must(t, 200, "Are you a person?")
	if strings.Contains(page.body, "Tea") || strings.Contains(page.body, "7a1fa2") {
		t.Error("the neighbour has the shop's look")
	}
	v.get(other+"/captcha/nothing", "Accept-Language", "en").must(t, 404, "<h1>There is nothing here")
}

func checkConfig(t *testing.T, file string) (string, error) {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(bin, "check-config", file).CombinedOutput()
	return string(out), err
}

// TestBadBrandingIsRefused: check-config and the start report the file and the line, once.
func TestBadBrandingIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, page, want string }{
		{"challenge.html", "<p>one</p>\n<p>{{if .Problem}}</p>\n", "challenge.html:"},
		{"challenge.html", "<p>one</p>\n<p>two</p>\n<p>{{.Prolem}}</p>\n", "challenge.html:3"},
		{"challenge.html", "<p>one</p>\n{{if .CookiesOff}}\n{{.Nothing}}{{end}}", "challenge.html:3"},
		{"challenge.html", "<p>one</p>\n<a href='{{if .Test}}\"{{end}}>", "challenge.html"},
		{"message.html", "<p>[[no_such_text]]</p>", "no_such_text: missing"},
		{"layout.html", "{{define \"head\"}}\n{{.Brand.Heat}}{{end}}{{define \"masthead\"}}{{end}}{{define \"request\"}}{{end}}", ":2"},
	} {
		dir := t.TempDir()
		writeInto(t, filepath.Join(dir, "own", "pages", c.name), c.page)
		file := brandConfig(t, "http://127.0.0.1:1", dir)
		out, err := checkConfig(t, file)
		if err == nil || !strings.Contains(out, "services[0].captcha.branding.templates") || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v\n%s\nwanted %s", c.page, err, out, c.want)
		}
		if n := strings.Count(out, "\n"); n > 4 && c.name != "message.html" {
			t.Errorf("%s: said in %d lines:\n%s", c.page, n, out)
		}
	}
	dir := t.TempDir()
	writeInto(t, filepath.Join(dir, "own", "x"), "")
	file := brandConfig(t, "http://127.0.0.1:1", dir)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f := func(old, repl, want string) {
		t.Helper()
		writeInto(t, file, strings.Replace(string(b), old, repl, 1))
		if out, err := checkConfig(t, file); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v %s, wanted %s", repl, err, out, want)
		}
	}
	f("lang: ru, key: challenge_heading", "lang: xx, key: challenge_heading", "branding.texts.1.lang: there is no catalogue \"xx\"")
	f("lang: ru, key: challenge_heading", "lang: ru, key: heading", "branding.texts.1.key: no page has a text \"heading\"")
	f(`text: "Вам чаю?"`, `text: "{{.Key}}"`, "branding.texts.1.text: unknown placeholder")
	f("accent: \"#7a1fa2\"", "accent: purple", "branding.accent: ")
	f("logo.svg", "logo.svgz", "branding.logo: ")
	f("templates: "+filepath.Join(dir, "own"), "templates: /nowhere", "branding.templates: ")
}
