package cmd

import (
	"strings"
	"testing"
	"time"

	"antirobot/admin"
	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/processor"
	"antirobot/verdict/proof"
	"antirobot/verdict/words"
)

func told(t *testing.T, s *verdict.Story) string {
	t.Helper()
	var b strings.Builder
	if err := printStory(&b, s, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestStoryOfEveryCause: each cause and each refusal has words of its own.
func TestStoryOfEveryCause(t *testing.T) {
	seen := map[string]string{}
	is := func(name, words string) {
		t.Helper()
		if words == name || seen[words] != "" {
			t.Errorf("%s is told as %q, as is %q", name, words, seen[words])
		}
		seen[words] = name
	}
	for c := range verdict.Causes {
		name := verdict.Cause(c).String()
		words := verdict.CauseWords(name)
		is("cause "+name, words)
		if words == name || !strings.Contains(told(t, &verdict.Story{Verdict: "robot", Mode: "enforce", Cause: name}), words) {
			t.Errorf("the cause %s is not told", name)
		}
	}
	for r := identity.RefusedNone + 1; r.String() != identity.RefusedNone.String(); r++ {
		words := identity.RefusalWords(r.String())
		is("refusal "+r.String(), words)
		s := &verdict.Story{Verdict: "human", Cause: "none", Refused: []verdict.Refusal{{Kind: "spravka", Reason: r.String()}}}
		if words == r.String() || !strings.Contains(told(t, s), "refused: spravka ("+words+")") {
			t.Errorf("the refusal %s is not told", r)
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d causes and refusals", len(seen))
	}
	if got := verdict.CauseWords("of-tomorrow"); got != "of-tomorrow" {
		t.Errorf("the cause of a later gateway is told as %q", got)
	}
}

// TestStoryOfDoubt: a doubt is told with its factors, whether something followed from it or not.
func TestStoryOfDoubt(t *testing.T) {
	doubt := &verdict.StoryDoubt{
		Subject: "ip:203.0.113.7", Score: 0.45, Until: time.Now(), Factors: map[string]float32{"clients": 1, "targets": 17}, Amounts: map[string]float32{"clients": 0.5, "targets": 1.6},
	}
	for _, c := range []struct {
		s    verdict.Story
		want string
	}{
		{verdict.Story{Verdict: "human", Mode: "enforce", Cause: "none", Doubt: doubt}, "unsure, and let through: it may be a robot"},
		{verdict.Story{Verdict: "unsure", Mode: "enforce", Cause: "doubt", Doubt: doubt}, "unsure, and so challenged: it may be a robot"},
		{verdict.Story{Verdict: "human", Mode: "enforce", Cause: "none", Doubt: doubt, Pass: &verdict.StoryPass{}}, "human, because a pass paid"},
	} {
		got := told(t, &c.s)
		if !strings.Contains(got, c.want) || !strings.Contains(got, "about ip:203.0.113.7, score 0.45") || strings.Index(got, "targets") > strings.Index(got, "(clients") {
			t.Errorf("%+v:\n%s", c.s, got)
		}
	}
}

// TestStoryOfExcess: which quota was exceeded, by how much, and which clients are checked for it.
func TestStoryOfExcess(t *testing.T) {
	for _, c := range []struct {
		x     verdict.StoryExcess
		wants []string
	}{
		{verdict.StoryExcess{Scope: "client", Read: 110, Most: 100, Window: "24h", OneClient: true}, []string{"it has read more than the quota", "110 pages within 24h, 100 allowed", "this client"}},
		{verdict.StoryExcess{Scope: "network", Network: "203.0.113.0/24", Read: 900, Most: 800, Window: "24h"}, []string{"its network has read more", "clients of 203.0.113.0/24"}},
	} {
		got := told(t, &verdict.Story{Verdict: "robot", Mode: "enforce", Cause: "quota", Excess: &c.x})
		for _, want := range c.wants {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not told: %s", want, got)
			}
		}
	}
}

// TestStoryOfOwnBlock: what stands above the white list is not set right by an entry there.
func TestStoryOfOwnBlock(t *testing.T) {
	for _, c := range []struct{ list, service, want string }{
		{"api", "", "antirobot unblock 203.0.113.0/24\n"},
		{"api", "shop", "antirobot unblock 203.0.113.0/24 --service shop\n"},
		{"inline", "", "take 203.0.113.0/24 out of lists in the configuration, and reload\n"},
		{"abuse", "", "take 203.0.113.0/24 off the list abuse\n"},
	} {
		s := verdict.Story{Verdict: "blocked", Mode: "enforce", Cause: "own-block", Entry: &verdict.StoryEntry{List: c.list, Text: "203.0.113.0/24", Service: c.service, Flag: "block"}}
		if out := told(t, &s); !strings.Contains(out, c.want) || strings.Contains(out, "allow") {
			t.Errorf("%s:\n%s", c.list, out)
		}
	}
}

// TestSubject: an exemption and the entries of lists are printed.
func TestSubject(t *testing.T) {
	f := func(s knownSubject, want ...string) {
		t.Helper()
		var b strings.Builder
		if err := printSubject(&b, &s, time.Now()); err != nil {
			t.Fatal(err)
		}
		for _, w := range append(want, "no counted request of late") {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%q is missing:\n%s", w, &b)
			}
		}
		if strings.Contains(b.String(), "processor.exempt") != s.Exempt {
			t.Errorf("exempt %v:\n%s", s.Exempt, &b)
		}
	}
	f(knownSubject{Subject: "ip:127.0.0.1", Exempt: true}, "processor.exempt names it")
	entry := admin.Naming{List: "abuse", Flag: "block", Entry: "203.0.113.0/24", Service: "shop", Reason: "flood"}
	f(knownSubject{Subject: "ip:203.0.113.7", Entries: []admin.Naming{entry}}, "203.0.113.0/24 on the list abuse (shop)", "flood")
}

// TestStoryOfTrace: the trace of a request is told with where to look at it, where there is such a place.
func TestStoryOfTrace(t *testing.T) {
	s := verdict.Story{Verdict: "human", Cause: "none", Trace: "0af7651916cd43dd8448eb211c80319c"}
	if out := told(t, &s); !strings.Contains(out, s.Trace+"\n") || strings.Contains(out, "://") {
		t.Errorf("without a page: %s", out)
	}
	s.TracePage = "http://traces.example/trace/" + s.Trace
	if out := told(t, &s); !strings.Contains(out, " "+s.TracePage+"\n") {
		t.Errorf("with a page: %s", out)
	}
}

// TestStoryOfRules: what rules said is told with the line, and quarantine is no 403.
func TestStoryOfRules(t *testing.T) {
	f := func(s verdict.Story, want ...string) {
		t.Helper()
		s.Mode = verdict.Enforce.String()
		got := told(t, &s)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("not told: %s in\n%s", w, got)
			}
		}
		if strings.Contains(got, "403") != strings.Contains(strings.Join(want, " "), "403") {
			t.Errorf("a 403 is told wrongly in\n%s", got)
		}
	}
	block, quarantine := verdict.RuleBlock.String(), verdict.RuleQuarantine.String()
	f(verdict.Story{Verdict: "blocked", Cause: "rule", Rules: &verdict.StoryRules{
		Action: block, Decision: "SCRAPER", Line: 3, Rule: "if many stop as SCRAPER", Tags: []string{"many"},
		Fired: []verdict.StoryFired{{Line: 2, Rule: "networkCheck"}},
	}}, "blocked with a 403: a rule of the service", "SCRAPER, action "+block, "line 3: if many stop as SCRAPER", "marks: many", "fired in line 2: networkCheck")
	f(verdict.Story{Verdict: "blocked", Cause: "message", Message: &verdict.StoryRules{
		Route: "POST /guestbook", Action: quarantine, Decision: "FLOOD", Score: 2, Solved: true,
	}}, "blocked with a 409", "FLOOD on POST /guestbook, action "+quarantine+", score 2", "a captcha had been solved for it")
	f(verdict.Story{Verdict: "blocked", Cause: "rule", Rules: &verdict.StoryRules{Action: quarantine, Error: "the store is away"}},
		"blocked with a 409", "no decision: the store is away")
	f(verdict.Story{Verdict: "robot", Cause: "ban", Answered: 429, RetryAfter: 60}, "robot, refused with a 429, Retry-After 60: a live ban")
	f(verdict.Story{Verdict: "robot", Cause: "ban", Answered: 403}, "robot, refused with a 403: a live ban")
	f(verdict.Story{Verdict: "robot", Cause: "quota"}, "robot, challenged: more was read than the quota allows")
}

// TestStoryOfHandshake: the fingerprints are told, and a contradiction in words.
func TestStoryOfHandshake(t *testing.T) {
	h := verdict.StoryHello{JA4: "t13d1312h2_f57a46bbacb6_ab7e3b40a677", HTTP2: "2:0|00|0|a,m,p,s", Software: "Go", Contradicts: true, Behind: new(float64)}
	if got := told(t, &verdict.Story{Handshake: &h}); !strings.Contains(got, h.JA4+": of Go, which contradicts") || !strings.Contains(got, "begins with "+h.HTTP2) || !strings.Contains(got, "answers come 0 ms later") {
		t.Error(got)
	}
	if got := told(t, &verdict.Story{}); strings.Contains(got, "JA4") {
		t.Error(got)
	}
}

// TestWordsOfEveryFactorAndRule: each factor and each rule is told in words, in each language.
func TestWordsOfEveryFactorAndRule(t *testing.T) {
	names := processor.FactorNames()
	for i := range proof.Rules {
		names = append(names, proof.Rules[i].Name)
		for _, v := range proof.Rules[i].Shows {
			names = append(names, v.Name)
		}
	}
	for _, name := range names {
		for _, l := range [...]words.Language{words.English, words.Russian} {
			if got := words.Factor(l, name, 3); strings.HasPrefix(got, name+" = ") {
				t.Errorf("%s has no words in %s", name, l)
			}
		}
	}
}
