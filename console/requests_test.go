package console

import (
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestLinksKeepTheQuestion: the files to take away, and the older entries, are those of the question that the page answers.
func TestLinksKeepTheQuestion(t *testing.T) {
	g := new(gate)
	b := open(t, newConsole(t, g, nil)).signIn(viewerToken)
	const question = `agent:"a b&c=d" verdict:robot`
	_, body, _ := b.ask("/console/requests?q="+url.QueryEscape(question), "")
	links := regexp.MustCompile(`href="(/console/requests(?:\.csv|\.json|)\?[^"]+)"`).FindAllStringSubmatch(body, -1)
	if len(links) != 3 {
		t.Fatalf("%d links in %s", len(links), body)
	}
	for _, link := range links {
		g.asked = nil
		b.ask(html.UnescapeString(link[1]), "")
		target, _, _ := strings.Cut(strings.TrimPrefix(strings.Join(g.asked, "\n"), "vera GET "), " ")
		to, err := url.Parse(target)
		if err != nil || to.Query().Get("q") != question {
			t.Errorf("%s asks for %q", link[1], g.asked)
		}
		if older := !strings.Contains(link[1], "requests."); older && to.Query().Get("before") != number {
			t.Errorf("older entries than %s: %q", number, g.asked)
		}
	}
}
