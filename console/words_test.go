package console

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"antirobot/admin"
	"antirobot/captcha/outcomes"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/journal"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// named returns the names of all values of a type whose String says unknown after the last of them.
func named[T interface {
	~uint8
	fmt.Stringer
}](unknown string) (all []string) {
	for v := T(0); v.String() != unknown && v < 100; v++ {
		all = append(all, v.String())
	}
	return all
}

// count returns the names of the first values of a type.
func count[T interface {
	~uint8
	fmt.Stringer
}](last T) (all []string) {
	for v := T(0); v <= last; v++ {
		all = append(all, v.String())
	}
	return all
}

// TestEveryNameHasAText walks every name that the API tells and the console shows through every catalogue.
func TestEveryNameHasAText(t *testing.T) {
	_, catalogues := book()
	for prefix, names := range map[string][]string{
		"way_":     outcomes.Ways[:],
		"device_":  outcomes.Devices[:],
		"answer_":  append([]string{"shown"}, outcomes.Answers[:]...),
		"cause_":   named[verdict.Cause]("unknown"),
		"mode_":    count(verdict.Off),
		"action_":  count(verdict.RuleBlock),
		"count_":   count(verdict.CountNothing),
		"refused_": count(identity.RefusedAway),
		"kind_":    named[journal.Kind]("unknown"),
		"verdict_": verdicts,
		"list_":    count(cbb.ForRules),
		"source_":  count(bans.SourceProcessor),
		"role_":    count(admin.Admin)[1:],
	} {
		if len(names) < 2 {
			t.Errorf("%s: only %v", prefix, names)
		}
		for lang, said := range catalogues {
			for _, name := range names {
				if said[prefix+name] == "" {
					t.Errorf("%s does not say what %s%s is", lang, prefix, name)
				}
			}
		}
	}
	for why := verdict.WhyUncounted + 1; why.String() != verdict.WhyUncounted.String(); why++ { // told in English words
		if said := catalogues["ru"]; said["why_"+why.String()] == "" {
			t.Errorf("ru does not say %q", why)
		}
	}
}

// TestPagesShowNoNames: on the pages these names stand as the language's words.
func TestPagesShowNoNames(t *testing.T) {
	b := open(t, newConsole(t, new(gate), nil)).signIn(viewerToken)
	b.lang = "ru"
	for path, want := range map[string][]string{
		"/console/challenges": {"<td>страница</td>", "<td>телефон</td>"},
		"/console/":           {"показано 2", "решено 1"},
		"/console/lists":      {"<td>оператор</td>"},
	} {
		_, body, _ := b.ask(path, "")
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s: no %q in %s", path, w, body)
			}
		}
		if raw := regexp.MustCompile(`>(page|phone|api|solved|passed)\b`).FindString(body); raw != "" {
			t.Errorf("%s shows %q", path, raw)
		}
	}
}

// TestNumbersAsSent: a sender's number is shown with all its digits.
func TestNumbersAsSent(t *testing.T) {
	b := open(t, newConsole(t, new(gate), nil)).signIn(viewerToken)
	if _, body, _ := b.ask("/console/messages", ""); strings.Count(body, ">2312592931745422300<") != 2 {
		t.Errorf("the log and the queue show %s", body)
	}
}

// TestABanPromisesNothing: the page of a banned request says the score and the threshold, and not what another score would have done:
// nobody has computed that.
func TestABanPromisesNothing(t *testing.T) {
	b := open(t, newConsole(t, new(gate), nil)).signIn(viewerToken)
	_, body, _ := b.ask("/console/requests/"+number, "")
	if _, score, _ := strings.Cut(body, "threshold 0.5."); !strings.HasPrefix(strings.TrimSpace(score), "</dd>") {
		t.Errorf("after the threshold: %.200s", score)
	}
}
