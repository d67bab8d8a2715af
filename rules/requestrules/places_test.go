package requestrules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"antirobot/cbb"
	"antirobot/identity/geo"
	"antirobot/rules"
	"antirobot/rules/sources"
	"antirobot/rules/texts"
	"antirobot/verdict"
)

// TestPlaces: rules over requests know country and network of the address, and look them up in lists.
func TestPlaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ip2asn.tsv")
	if err := os.WriteFile(file, []byte("192.0.2.0\t192.0.2.255\t64500\tDE\tExample\n198.51.100.0\t198.51.100.255\t64501\tFR\tOther\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := geo.DefaultConfig()
	cfg.Files = []string{file}
	places, err := geo.New(cfg, geo.Deps{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	lists := cbb.DefaultConfig()
	lists.Crawlers.Enabled = false
	lists.Lists = []cbb.ListConfig{
		{Name: "ours", Of: "keys", Entries: []string{"DE", "AT"}}, {Name: "hosters", Of: "keys", Entries: []string{"64501"}, Service: "shop"},
	}
	w := newWorld(t, func(d *Deps) {
		d.Places = places
		if d.Lists, err = cbb.New(lists, cbb.Deps{KV: d.Store, Feed: d.Store, Log: zerolog.Nop()}); err != nil {
			t.Fatal(err)
		}
	})
	s := w.service(`do hasAttribute(attribute="country") mark nowhere
if nowhere stop as NOWHERE
do listCheck(list="hosters", attribute="asn") mark hoster
if hoster stop as HOSTER
do attributeCheck(attribute="asn", value=64500) mark other
do listCheck(list="ours", attribute="country") mark ours
if not ours stop as FOREIGN
if other stop as OTHER
stop as OK`)
	for addr, want := range map[string]string{"192.0.2.7": "OK", "198.51.100.7": "HOSTER", "203.0.113.7": "NOWHERE"} {
		if r := w.judge(s, verdict.Human, addr, "GET /"); r.Decision != want || r.Failed != "" {
			t.Errorf("%s: %s %s, want %s", addr, r.Decision, r.Failed, want)
		}
	}
	names := &Names{Lists: sources.Named(lists.Names())}
	if i := len(names.Lists) - 1; names.Lists[i] != (rules.List{Name: "hosters", Texts: true, Of: texts.Keys}) {
		t.Errorf("%+v", names.Lists)
	}
	c := DefaultServiceConfig()
	c.Text = `do hasAttribute(attribute="country") mark a if a stop as A`
	if got := c.Warnings(names); len(got) != 1 {
		t.Errorf("%q", got)
	}
	names.Places = true
	if got := c.Warnings(names); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
