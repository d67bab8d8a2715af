package message

import (
	"os"
	"strings"
	"testing"
	"time"

	"antirobot/message/learn/corpus"
	"antirobot/rules"
)

// inlined judges a message as one inside a request, and returns the decision; nothing if there are no rules at all.
func inlined(t testing.TB, s *System, domain, text string) (decision string, tags []string) {
	t.Helper()
	err := s.JudgeInline(t.Context(), root(t, s, domain), []map[string]any{{"text": text}}, false, func(_ *rules.Program, r *rules.Run, _ *float64, err error) {
		if err != nil {
			t.Error(err)
		}
		decision, tags = r.Decision(), r.AppendTags(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	return decision, tags
}

// TestStartRules: a domain that never got rules is judged by the start inside requests, and by nothing over the API. Its own
// rules replace it, and a key turns it off.
func TestStartRules(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Partners[0].Domain.Domains = []DomainConfig{{Name: "own", Properties: []PropertyConfig{
		{Name: "messageAnalyzer", Class: ClassFirewall, Rules: "stop as OWN"},
	}}}
	s, _ := newSystem(t, cfg)
	f := func(text, want, tag string) {
		t.Helper()
		got, tags := inlined(t, s, "", text)
		if got != want || tag != strings.Join(tags, ",") {
			t.Errorf("%q: %s %v, want %s %s", text, got, tags, want, tag)
		}
	}
	f("Thank you, the lighthouse is lovely", "OK", "nomarkup")
	f("lalalalalalalalalalalalalala", "SPAM", "flood,nomarkup,bad")
	f("see [url=http://a.example/]here[/url]", "SPAM", "markup,bad")
	f("one http://a.example two http://b.example three bit.ly/x", "SPAM", "links,shortened,nomarkup,bad")
	if got := say(t, s, "", `{"text":"lalalalalalalalalalalalalala"}`); got != rules.Unknown {
		t.Errorf("over the API: %s", got)
	}
	if got, _ := inlined(t, s, "own", "lalalalalalalalalalalalalala"); got != "OWN" {
		t.Errorf("a domain with rules: %s", got)
	}
	if len(s.logs) != 1 {
		t.Fatal("no log")
	}
	cfg.Partners[0].Domain.Properties = nil // neither storage nor model nor log
	if s, _ = newSystem(t, cfg); true {
		f("lalalalalalalalalalalalalala", "SPAM", "flood,nomarkup,bad")
		f("hello", "OK", "nomarkup")
	}
}

// TestStartRulesOnData judges the texts of the data sets one by one, an hour apart, so that none is a repetition: what the
// rules alone find, without the model, which has seen most of these texts.
func TestStartRulesOnData(t *testing.T) {
	sets, whole := corpus.Load(t)
	for _, name := range []string{"sms", "tg"} {
		cfg := DefaultConfig()
		cfg.Partners[0].Domain.Properties = []PropertyConfig{{Name: "storage", Class: ClassMemoryStorage}}
		s, clock := newSystem(t, cfg)
		var good, bad, wrong, found int
		by := map[string]int{}
		for _, text := range sets[name] {
			clock.Advance(2 * time.Hour)
			decision, tags := inlined(t, s, "", text.Text)
			spam := decision == "SPAM"
			switch {
			case text.Bad:
				bad++
				if spam {
					found++
				}
			case spam:
				wrong++
				by[strings.Join(tags, ",")]++
				fallthrough
			default:
				good++
			}
		}
		t.Logf("%s: %d of %d good texts are called spam %v, %d of %d bad ones are found", name, wrong, good, by, found, bad)
		if float64(wrong) > 0.005*float64(good)+1 {
			t.Errorf("%s: %d of %d good texts are called spam (the whole data: %v)", name, wrong, good, whole)
		}
	}
}

// TestStartRulesAreDocumented: the page shows the rules as they are.
func TestStartRulesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```\n"+startRules+"```") {
		t.Error("docs/messages.md does not show the rules")
	}
}
