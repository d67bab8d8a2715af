package cbb

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/rules/texts"
	"antirobot/servertest"
)

// found reports whether a text is in the list of texts of that name.
func found(l *Lists, list, service, text string) bool {
	var r texts.Reader
	set := l.Texts(list, service)
	if set == nil {
		return false
	}
	_, ok := r.Find(set, texts.ByKind, text)
	return ok
}

// TestListsOfTexts: words, domains and keys, from the configuration and from files, of one service; and networks that
// are for rules alone.
func TestListsOfTexts(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	hosts := file(
		"hosts", "# disposable mail\nmailinator.com\n0.0.0.0 ads.example # adverts\n\nyopmail.com\nnot a host\n",
	)
	page := file("page", "<html>\ncasino\n</html>\n")
	l := node(t, newFakeStore(), func(c *Config) {
		c.Lists = []ListConfig{
			{Name: "words", Of: "words", Entries: []string{"casino", "free money"}},
			{Name: "hosts", Of: "domains", Flag: "rules", File: hosts},
			{Name: "coupons", Of: "keys", File: file("coupons", "C# 7\n#1\nA # a comment\n"), Service: "shop"},
			{Name: "json", Of: "words", File: file("words.json", `["казино", "bonus"]`)},
			{Name: "page", Of: "words", File: page},
			{Name: "few", Of: "words", File: file("few", "a\nb\nc\n"), MaxEntries: 2},
			{Name: "quiet", Flag: "rules", Entries: []string{"198.51.100.0/24", "0.0.0.0/1"}},
		}
	}, func(b *bounds) { b.poll = time.Millisecond })
	f := func(list, service, text string, want bool) {
		t.Helper()
		if got := found(l, list, service, text); got != want {
			t.Errorf("%s: %q is there: %v", list, text, got)
		}
	}
	f("words", "", "Play at a CASINO", true)
	f("hosts", "", "x@a.mailinator.com", true)
	f("hosts", "", "http://ads.example/", true)
	f("coupons", "shop", "C# 7", true)
	f("coupons", "shop", "A", true)
	f("coupons", "blog", "A", false)
	f("json", "", "Бонус: bonus", true)
	f("page", "", "casino", false)
	f("few", "", "a", false)
	f("nothing", "", "a", false)
	quiet := netip.MustParseAddr("198.51.100.7")
	if !l.Listed("quiet", quiet, identity.Subject{}, "", time.Now()) ||
		l.Listed("block", quiet, identity.Subject{}, "", time.Now()) {
		t.Error("a list for rules alone is found by its name, and blocks nothing")
	}
	if got := said(l, "198.51.100.7", ""); got != "- - - -" {
		t.Errorf("a list for rules alone judges: %s", got)
	}
	for _, s := range l.Stats().Lists {
		if s.Name == "hosts" && (s.Flag != "rules" || s.Of != "domains" || s.Entries != 3 || s.Bad != 1) {
			t.Errorf("%+v", s)
		}
		if s.Name == "page" && !strings.Contains(s.LastError, "begins with <") {
			t.Errorf("%+v", s)
		}
	}
	// A changed file is read while rules go on with the old one.
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer closeLists(t, l)
	file("hosts", "mailinator.com\nguerrillamail.com\n")
	servertest.Eventually(
		t, "a changed file is read", func() bool { return found(l, "hosts", "", "x@guerrillamail.com") },
	)
	f("hosts", "", "x@yopmail.com", false)
}

func TestListsOfTextsAreValidated(t *testing.T) {
	c := DefaultConfig()
	c.Lists = []ListConfig{
		{Name: "a", Of: "words", Flag: "block", Entries: []string{"casino"}},
		{Name: "b", Of: "hosts", Flag: "rules", Entries: []string{}},
		{Name: "c", Of: "domains", Entries: []string{"example.com", "http://example.com/"}},
		{Name: "d", Of: "words", Entries: []string{"#1", "..."}},
	}
	err := c.Validate()
	for _, want := range []string{
		`lists[0].flag: "block": a list of texts is for rules alone`, `lists[1].of: "hosts": networks, words, domains or keys`,
		`lists[2].entries[1]: "http://example.com/": not a host`, `lists[3].entries[1]: "...": without a letter or a digit`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
