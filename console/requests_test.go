package console

import (
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"antirobot/admin"
	"antirobot/verdict"
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

// blocking tells a request that was stopped by the operator's own entry of a list.
type blocking struct {
	gate
	list, service string
}

func (g *blocking) Ask(who admin.Caller, method, target string, body []byte) (int, []byte) {
	if target != "/api/journal/"+number+"?gateways=all" {
		return g.gate.Ask(who, method, target, body)
	}
	text, err := json.Marshal(told{Story: &verdict.Story{RequestID: number, Mode: "enforce", Verdict: "blocked", Cause: "own-block", Subject: "ip:203.0.113.7", Entry: &verdict.StoryEntry{List: g.list, Text: "203.0.113.0/24", Service: g.service, Flag: "block"}}})
	if err != nil {
		panic(err)
	}
	return 200, text
}

// TestOwnBlockIsTakenOff: what stands above the white list is ended by taking it off its list, and by no button that would say
// that somebody is let through who is not.
func TestOwnBlockIsTakenOff(t *testing.T) {
	for list, want := range map[string]string{
		"api":   `name="do" value="unlist">Take 203.0.113.0/24 off the block list<`,
		"abuse": "take 203.0.113.0/24 off the list abuse",

		"inline": "take 203.0.113.0/24 out of lists in the configuration, and reload",
	} {
		c := New(Deps{API: &blocking{list: list}})
		if _, body, _ := open(t, c).signIn(operatorToken).ask("/console/requests/"+number, ""); !strings.Contains(body, want) || strings.Contains(body, `value="white"`) {
			t.Errorf("%s:\n%s", list, body)
		}
	}
	// An entry for one service is no entry for all.
	c := New(Deps{API: &blocking{list: "api", service: "shop"}})
	if _, body, _ := open(t, c).signIn(operatorToken).ask("/console/requests/"+number, ""); !strings.Contains(body, `name="service" value="shop"><button class="go" id="unblock"`) {
		t.Errorf("of a service:\n%s", body)
	}
}

// doubting tells a request of somebody in doubt from which nothing followed, with its row.
type doubting struct{ gate }

func (g *doubting) Ask(who admin.Caller, method, target string, body []byte) (int, []byte) {
	if target != "/api/journal/"+number+"?gateways=all" {
		return g.gate.Ask(who, method, target, body)
	}
	const doubt = `"doubt":{"subject":"ip:203.0.113.7","score":0.45,"factors":{"clients":1},"amounts":{"clients":0.5}}`
	return 200, []byte(`{"story":{"mode":"enforce","verdict":"human","cause":"none",` + doubt + `},"items":[{"id":"` + number + `","kind":"request","verdict":"unsure","cause":"none"}]}`)
}

// TestDoubtIsShown: who is in doubt is shown so, though nothing followed from it.
func TestDoubtIsShown(t *testing.T) {
	_, body, _ := open(t, New(Deps{API: new(doubting)})).signIn(viewerToken).ask("/console/requests/"+number, "")
	if !strings.Contains(body, `<span class="tag v-unsure">unsure</span> may be a robot, not certain`) || strings.Contains(body, "nothing spoke against it") {
		t.Error(body)
	}
}

// TestNamedIsShown: who is on a list is shown with the entry.
func TestNamedIsShown(t *testing.T) {
	by := []admin.Naming{{List: "abuse", Flag: "block", Entry: "203.0.113.0/24", Reason: "flood"}}
	b := open(t, newConsole(t, &gate{standing: &standing{Subject: "ip:203.0.113.7", Entries: by}}, nil)).signIn(viewerToken)
	if _, body, _ := b.ask("/console/subjects/ip:203.0.113.7", ""); !strings.Contains(body, `On a block list: <code>203.0.113.0/24</code> (abuse). flood</p>`) {
		t.Error(body)
	}
}

// TestExemptIsShown: an address that is never banned is not shown as one that only is not now.
func TestExemptIsShown(t *testing.T) {
	b := open(t, newConsole(t, &gate{standing: &standing{Subject: "ip:203.0.113.7", Exempt: true}}, nil)).signIn(viewerToken)
	if _, body, _ := b.ask("/console/subjects/ip:203.0.113.7", ""); !strings.Contains(body, "processor.exempt names this address") {
		t.Error(body)
	}
}
