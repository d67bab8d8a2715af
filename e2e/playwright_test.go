package e2e

import (
	"slices"
	"strings"
	"testing"

	"antirobot/servertest"
)

// TestPlaywright: a browser that playwright drives, as it does by default, clicks its way through a site. What its pages say makes it
// unsure at least within ten of them, under the name of a browser with a window; one that hides can't hide that it is inspected. It opens its pages by events of input, as people
// do. Without the page's script there is what it says of itself: that it has no window.
func TestPlaywright(t *testing.T) {
	t.Parallel()
	pages := leaflets(t)
	for _, c := range []struct {
		dress, settings, factors string
	}{
		{named, "{evidence: true, evidence_insert: true}", "page_automation 1, page_inspected 1, agent_headless 0, unclicked_share 0, uncached_share 0"},
		{hidden, "{evidence: true, evidence_insert: true}", "page_automation 0, page_inspected 1, agent_headless 0, unclicked_share 0, uncached_share 0"},
		{plain, "{}", "page_automation unknown, page_inspected unknown, agent_headless 1, unclicked_share unknown, uncached_share unknown"},
	} {
		t.Run(c.dress, func(t *testing.T) {
			g := configured(t, "processor: {exempt: []}\nservices: [{name: site, upstream: {urls: [%q]}, captcha: "+c.settings+", verdict: {mode: observe}}]", pages)
			b, lacks := launchNode(t, "playwright", c.dress)
			if lacks != "" {
				servertest.Lack(t, lacks, "make deps")
			}
			b.open(g.url + "/")
			visited := map[string]bool{}
			for range 9 {
				links := b.links()
				i := slices.IndexFunc(links, func(href string) bool { return !visited[href] })
				if i < 0 {
					t.Fatalf("%s leads nowhere: %s", b.at(), links)
				}
				visited[links[i]] = true
				b.click(`a[href="` + links[i] + `"]`)
			}
			var s session
			got := ""
			eventually(t, "its session", func() bool {
				s = g.session("ip:127.0.0.1")
				var all []string
				for _, f := range []string{"page_automation", "page_inspected", "agent_headless", "unclicked_share", "uncached_share"} {
					all = append(all, f+" "+s.factor(f))
				}
				got = strings.Join(all, ", ")
				return s.Pages >= 10 && (got == c.factors || s.Pages > 40)
			})
			if got != c.factors {
				t.Errorf("its features are %s, want %s", got, c.factors)
			}
		})
	}
}
