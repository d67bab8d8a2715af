package e2e

import (
	"strings"
	"testing"
)

// TestGuestbookRules spams the guest-book of the demo and reads what the rules said about it.
func TestGuestbookRules(t *testing.T) {
	t.Parallel()
	g := start(t, "demo", "--traffic", "0", "--log-level", "info", "--captcha-test-answer", testAnswer)
	v := visitor(t)
	post := func(words string) *response {
		t.Helper()
		return v.do("POST", g.url+"/guestbook", "name=Ann&words="+strings.ReplaceAll(words, " ", "+"), "Content-Type", form)
	}
	rules := func(wants ...string) {
		t.Helper()
		page := v.get(g.url+"/guestbook/rules").must(t, 200, "What the rules said")
		for _, want := range wants {
			if !strings.Contains(page.body, want) {
				t.Errorf("the page does not say %q\n%s", want, tail(page.body, 4000))
			}
		}
	}
	post("The lighthouse is lovely, thank you").must(t, 200, "Thank you, your words arrived whole.")
	rules("<h3>OK → pass</h3>", "line 9: do modelClassify() mark spam score 2: TRUE", `class="passed"`)

	// What the page suggests, in both languages.
	page := post("Win money at our online casino, free spins and a bonus").must(t, 200, `<blockquote class="written" dir="auto">Win money at our online casino, free spins and a bonus</blockquote>`)
	rules("<h3>SPAM → captcha</h3>", `<li class="fired"><code>line 9: do modelClassify() mark spam score 2: FALSE, marked, score 2, found `, "tags spam")
	v.do("POST", g.url+"/checkcaptcha", answered(t, page.body, testAnswer), "Content-Type", form).must(t, 200, "Thank you")
	rules("SPAM → pass, a captcha was solved for it")

	if r := post("Выиграй деньги в онлайн казино"); r.Header.Get("X-Antirobot-Verdict") != "captcha" {
		t.Errorf("spam in Russian: %d %v", r.StatusCode, r.Header)
	}

	post("lalalalalalalalalalalalala").must(t, 409, `"decision":"FLOOD"`)
	for range 3 {
		post("the very same words").must(t, 200, "Thank you")
	}
	post("the very same words").must(t, 200, "<form")
	rules("FREQUENT → captcha", "FLOOD → quarantine")
	post(strings.Repeat("word one two ", 60)).must(t, 403, "")

	// A moderator says that a good one was spam.
	const odd = "zyxwv unheard nonsense of some many words" // spam of four words or more is found again at once
	post(odd).must(t, 200, "Thank you")
	id := between(v.get(g.url+"/guestbook/rules").body, `name="id" value="`, `"`)
	v.do("POST", g.url+"/guestbook/rules", "id="+id+"&marker=bad", "Content-Type", form).must(t, 303, "")
	v.get(g.url+"/guestbook/rules?learnt=bad").must(t, 200, "Learnt: that was spam.")
	if r := post(odd + " again"); r.StatusCode != 200 || !strings.Contains(r.body, `name="saved"`) {
		t.Errorf("it was not learnt: %d", r.StatusCode)
	}
}
