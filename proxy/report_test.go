package proxy

import (
	"strings"
	"testing"

	"antirobot/request"
)

// TestAccessLineCanBeReplayed: the line has everything that replay judges by, but neither the query nor that of the
// Referer.
func TestAccessLineCanBeReplayed(t *testing.T) {
	e := newCheckEnv(t, nil)
	ask := func(target string) string {
		e.send(asked("GET", target, "203.0.113.5", "Referer: https://shop.example/list#token=secret\r\n"))
		return <-e.access
	}
	one, two := ask("/list?page=1&key=secret"), ask("/list?page=2&key=secret")
	for _, want := range []string{
		`"path":"/list"`, `"asks":"page"`, `"user_agent":"Mozilla/5.0 (X11`,
		`"referer":"https://shop.example/list"`,
	} {
		if !strings.Contains(one, want) {
			t.Errorf("no %s in %s", want, one)
		}
	}
	if strings.Contains(one, "secret") || strings.Contains(one, "page=") {
		t.Errorf("a query in %s", one)
	}
	hash := func(line string) string {
		_, rest, _ := strings.Cut(line, `"query_hash":"`)
		h, _, _ := strings.Cut(rest, `"`)
		return h
	}
	if h := hash(one); len(h) != 8 || h == hash(two) || h != hash(ask("/list?page=1&key=secret")) {
		t.Errorf("hashes %q and %q", h, hash(two))
	}
	e.check.core.deps.Hash = request.HashKey{1, 2}
	if keyed := hash(ask("/list?page=1&key=secret")); len(keyed) != 8 || keyed == hash(one) {
		t.Errorf("hash %q with a key, %q without: whoever reads the log can try what the query was", keyed, hash(one))
	}
	e.check.core.deps.AccessFields = false
	if line := ask("/list"); strings.Contains(line, "user_agent") || strings.Contains(line, "referer") {
		t.Errorf("fields that nobody asked for in %s", line)
	}
}

// TestRefererIsQuotedWithoutSecrets: a Referer in the log has no query, no fragment, and nobody's name and password.
func TestRefererIsQuotedWithoutSecrets(t *testing.T) {
	f := func(referer, want string) {
		t.Helper()
		if got := string(quotedReferer([]byte(referer))); got != want {
			t.Errorf("%q: %q, wanted %q", referer, got, want)
		}
	}
	f("", "")
	f("https://shop.example/list?token=secret", "https://shop.example/list")
	f("https://shop.example/list#access_token=secret", "https://shop.example/list")
	f("https://shop.example?x", "https://shop.example")
	f("https://name:secret@shop.example/list", "shop.example/list")
	f("//name:se@cret@shop.example", "shop.example")
	f("https://shop.example/@name//@x", "https://shop.example/@name//@x")
	f("/list?secret", "/list")
}
