package verdict

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/rules"
)

// textRules are rules over one text, as for a service or a route.
type textRules struct {
	program *rules.Program
	action  RuleAction
	asked   []Verdict
}

func newTextRules(t testing.TB, text string, action RuleAction) *textRules {
	t.Helper()
	p, err := rules.Compile(text, rules.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return &textRules{program: p, action: action}
}

func (r *textRules) fill(g *Ruling) {
	var run rules.Run
	if err := r.program.Run(context.Background(), &rules.Env{}, &run); err != nil {
		panic(err)
	}
	g.Take(r.program, &run)
	g.Action = r.action
}

func (r *textRules) Judge(g *Ruling, _ *request.View, _ *identity.Identity, _ *Settings, so Verdict) {
	r.asked = append(r.asked, so)
	r.fill(g)
}

const spamText = "do ruleFalse() mark a, b score 1.5\ndo ruleTrue() mark c\n\nif a stop as SPAM"

// TestRulingActions checks what each action makes of a request, and that the story says which line decided.
func TestRulingActions(t *testing.T) {
	for _, c := range []struct {
		action  RuleAction
		verdict Verdict
		cause   Cause
		story   bool
	}{
		{RuleNone, Human, CauseNone, false},
		{RuleMark, Human, CauseNone, true},
		{RuleRobot, Robot, CauseRule, true},
		{RuleThrottle, Blocked, CauseRule, true},
		{RuleQuarantine, Blocked, CauseRule, true},
		{RuleBlock, Blocked, CauseRule, true},
	} {
		w := newWorld(t)
		s := service(t)
		s.Rules = newTextRules(t, spamText, c.action)
		v, id := newRequest(w.now(), "192.0.2.1")
		var d Decision
		w.Decide(&d, v, id, s)
		if d.Verdict != c.verdict || d.Cause != c.cause || (d.Quarantine() != nil) != (c.action == RuleQuarantine) || (d.Throttle() != nil) != (c.action == RuleThrottle) {
			t.Errorf("%v: %v for %v, quarantine %v", c.action, d.Verdict, d.Cause, d.Quarantine())
		}
		rid := request.NewID(v.At)
		w.Decisions().Record(rid, &d, v, id, s)
		story, ok := w.Decisions().Get(rid)
		if !ok || (story.Rules != nil) != c.story {
			t.Fatalf("%v: story %+v", c.action, story)
		}
		if !c.story {
			continue
		}
		want := &StoryRules{
			Action: c.action.String(), Decision: "SPAM", Line: 4, Rule: "if a stop as SPAM", Score: 1.5, Tags: []string{"a", "b"},
			Fired: []StoryFired{{1, "do ruleFalse() mark a, b score 1.5"}},
		}
		if !reflect.DeepEqual(story.Rules, want) {
			t.Errorf("%v: %+v", c.action, story.Rules)
		}
		if c.cause == CauseRule && story.Rule != "line 4: if a stop as SPAM" {
			t.Errorf("the rule %q", story.Rule)
		}
	}
}

// TestVerdictSoFar: rules can see lists and bans, and their block takes precedence over a ban.
func TestVerdictSoFar(t *testing.T) {
	w := newWorld(t)
	w.ban(ip("192.0.2.1"))
	s := service(t)
	r := newTextRules(t, spamText, RuleNone)
	s.Rules = r
	var d Decision
	for _, addr := range []string{"192.0.2.1", "192.0.2.2"} {
		v, id := newRequest(w.now(), addr)
		w.Decide(&d, v, id, s)
	}
	if !reflect.DeepEqual(r.asked, []Verdict{Robot, Human}) {
		t.Errorf("told %v", r.asked)
	}
	r.action = RuleBlock
	v, id := newRequest(w.now(), "192.0.2.1")
	if w.Decide(&d, v, id, s); d.Verdict != Blocked || d.Cause != CauseRule || d.Ban.Source != 0 || d.Own {
		t.Errorf("%v for %v with ban %+v", d.Verdict, d.Cause, d.Ban)
	}
	off := service(t, func(c *ServiceConfig) { c.Mode = "off" })
	off.Rules = r
	r.asked = nil
	if w.Decide(&d, v, id, off); len(r.asked) > 0 || d.Rules != nil {
		t.Error("mode off asks rules")
	}
}

// TestMessageRuling checks the conclusion from a message, and the list of the last ones.
func TestMessageRuling(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	post := func(action RuleAction) (Decision, request.ID) {
		v, id := newRequest(w.now(), "192.0.2.1")
		var d Decision
		w.Decide(&d, v, id, s)
		g := d.RuleMessage()
		newTextRules(t, spamText, action).fill(g)
		g.Route = "POST /comments"
		d.Settle()
		rid := request.NewID(v.At)
		w.Decisions().Record(rid, &d, v, id, s)
		w.clock.advance(1)
		return d, rid
	}
	if d, _ := post(RuleNone); d.Verdict != Human || d.Cause != CauseNone {
		t.Errorf("pass: %v for %v", d.Verdict, d.Cause)
	}
	if d, _ := post(RuleRobot); d.Verdict != Robot || d.Cause != CauseMessage || d.Ruling() != d.Message {
		t.Errorf("captcha: %v for %v", d.Verdict, d.Cause)
	}
	d, rid := post(RuleQuarantine)
	if d.Verdict != Blocked || d.Quarantine() != d.Message {
		t.Errorf("quarantine: %v", d.Verdict)
	}
	got := w.Decisions().Messages(2)
	if len(got) != 2 || got[0].RequestID != rid.String() || got[0].Message.Action != "quarantine" || got[1].Message.Action != "captcha" {
		t.Errorf("the last ones: %+v", got)
	}
	if all := w.Decisions().Messages(100); len(all) != 3 {
		t.Errorf("%d messages", len(all))
	}
}

func TestMark(t *testing.T) {
	f := func(r Ruling, want string) {
		t.Helper()
		if got := string(r.AppendMark(nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	var r Ruling
	newTextRules(t, spamText, RuleMark).fill(&r)
	f(r, "SPAM;score=1.5;tags=a,b")
	f(Ruling{Decision: "SPAM", Granted: true}, "SPAM;solved")
	f(Ruling{Failed: "x"}, "FAILED")
}

func TestAnswers(t *testing.T) {
	a, err := NewAnswers(DefaultAnswers(), "quarantine")
	if err != nil {
		t.Fatal(err)
	}
	for decision, want := range map[string]RuleAction{"OK": RuleNone, "UNKNOWN": RuleNone, "SPAM": RuleRobot, "BLOCK": RuleBlock, "MARK": RuleMark, "ELSE": RuleQuarantine} {
		if got := a.Of(decision); got != want {
			t.Errorf("%s: %v", decision, got)
		}
	}
	_, err = NewAnswers([]AnswerConfig{{"", "pass"}, {"A", "drop"}}, "")
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("got %v", err)
	}
}
