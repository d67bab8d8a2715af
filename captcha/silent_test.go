package captcha

import (
	"encoding/json"
	"html"
	"image/gif"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"antirobot/captcha/media"
	"antirobot/identity"
)

// asking returns an env whose robots are asked for a step.
func asking(t testing.TB, step string) *env {
	t.Helper()
	return newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Steps.Robot = step }, manyChecks)
}

// checkAnswer makes what a browser answers to a check: the work, and the size of the part that it asks for.
func (e *env) checkAnswer(key string, work *task, opts ...opt) string {
	e.t.Helper()
	a := e.c.Image(e.request("GET", "https://example.com/captcha/image?key="+key, opts...))
	part, err := gif.DecodeAll(strings.NewReader(string(a.Body)))
	if err != nil || a.Get("Content-Type") != "image/gif" {
		e.t.Fatalf("the part: %d %v %v", a.Status, a.Header, err)
	}
	return work.toil(e.t) + "x" + strconv.Itoa(part.Config.Width*256+part.Config.Height)
}

// pageAnswer is the same for a page, and returns its form.
func (e *env) pageAnswer(page *Response, opts ...opt) (fields url.Values, rep string) {
	e.t.Helper()
	var w task
	if err := json.Unmarshal([]byte(html.UnescapeString(between(e.t, string(page.Body), `data-work="`, `"`))), &w); err != nil {
		e.t.Fatal(err)
	}
	fields = fieldsOf(e.t, page.Body)
	return fields, e.checkAnswer(fields.Get("key"), &w, opts...)
}

// keeping is a browser that keeps the probe cookie of a page.
func keeping(a *Response) opt {
	return header("Cookie", "antirobot_probe="+value(cookies(a)["antirobot_probe"]))
}

// TestSilentCheck: a browser passes by itself, goes on to its page, and earns less than by digits.
func TestSilentCheck(t *testing.T) {
	e := asking(t, "silent")
	sent := e.c.Redirect(e.request("GET", "https://example.com/page?a=1"))
	browser := keeping(&sent)
	page, _ := e.open(sent.Get("Location"), browser)
	if strings.Contains(string(page.Body), "<img") || !strings.Contains(string(page.Body), `http-equiv="refresh"`) {
		t.Errorf("the page: %s", page.Body)
	}
	fields, rep := e.pageAnswer(&page, browser)
	a := e.submit(fields, rep, browser)
	if a.Outcome != OutcomeSolved || a.Get("Location") != "https://example.com/page?a=1" || a.Pass.Allowance != 25 ||
		!a.Work {
		t.Errorf("%d %v %+v", a.Status, a.Outcome, a.Pass)
	}
	if again := e.submit(fields, rep, browser); again.Outcome == OutcomeSolved {
		t.Error("the same answer counts twice")
	}
	ways := e.c.Challenges().Ways
	if len(ways) != 1 || ways[0].Name != "silent" || ways[0].Solved != 1 || ways[0].Quick != 0 {
		t.Errorf("%+v", ways)
	}
}

// TestSilentCheckIsChecked: work without the part, a part without the work, and another key's part are refused. Who
// fails is asked for the next step, without the word "wrong", and until that fades.
func TestSilentCheckIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(rep string) string{
		"no part":    func(rep string) string { return strings.Split(rep, "x")[0] },
		"no work":    func(rep string) string { return "x" + strings.Split(rep, "x")[1] },
		"other part": func(rep string) string { return strings.Split(rep, "x")[0] + "x1" },
		"nonsense":   func(string) string { return "314159" },
	} {
		e := asking(t, "silent")
		sent := e.c.Redirect(e.request("GET", "https://example.com/page"))
		browser := keeping(&sent)
		page, _ := e.open(sent.Get("Location"), browser)
		fields, rep := e.pageAnswer(&page, browser)
		a := e.submit(fields, spoil(rep), browser)
		if a.Outcome != OutcomeFailed || strings.Contains(a.Get("Location"), "status=") {
			t.Errorf("%s: %d %v %s", name, a.Status, a.Outcome, a.Get("Location"))
		}
		next, _ := e.open(a.Get("Location"), browser)
		if !strings.Contains(string(next.Body), `id="press"`) {
			t.Errorf("%s: the next step is no press: %s", name, next.Body)
		}
		e.pass(stepFades + time.Minute)
		sent = e.c.Redirect(e.request("GET", "https://example.com/page", browser))
		if later, _ := e.open(sent.Get("Location"), browser); strings.Contains(string(later.Body), `id="press"`) {
			t.Errorf("%s: the failure is never forgotten", name)
		}
	}
}

// TestPress: a button behind the same check, whose evidence gates nothing.
func TestPress(t *testing.T) {
	e := asking(t, "press")
	for _, pressed := range []string{"xm12.800.90", "xk0.3000.40", "xa0.9000.0", "", "xrubbish"} {
		sent := e.c.Redirect(e.request("GET", "https://example.com/page"))
		browser := keeping(&sent)
		page, _ := e.open(sent.Get("Location"), browser)
		fields, rep := e.pageAnswer(&page, browser)
		if a := e.submit(fields, rep+pressed, browser); a.Outcome != OutcomeSolved {
			t.Errorf("pressed %q: %d %v", pressed, a.Status, a.Outcome)
		}
		e.pass(2 * time.Hour)
	}
}

// TestDigitsWithoutScript: whoever runs no script chooses digits, on a page and with a form that is kept.
func TestDigitsWithoutScript(t *testing.T) {
	for _, step := range []string{"silent", "press"} {
		e := asking(t, step)
		sent := e.c.Redirect(e.request("GET", "https://example.com/page?a=1"))
		browser := keeping(&sent)
		page, fields := e.open(sent.Get("Location"), browser)
		to := html.UnescapeString(between(t, string(page.Body), `content="0;url=`, `"`))
		page, _ = e.open("https://example.com"+to, browser)
		if !strings.Contains(string(page.Body), "<img") {
			t.Fatalf("no digits: %s", page.Body)
		}
		fields.Set("step", "digits")
		if a := e.submit(fields, "", browser); a.Status != 303 || !strings.Contains(a.Get("Location"), "step=digits") {
			t.Errorf("the button leads to %d %s", a.Status, a.Get("Location"))
		}
		a := e.c.ChallengeForm(e.request("POST", "https://example.com/post", form("text", "x")))
		browser = keeping(&a)
		fields, rep := e.pageAnswer(&a, browser)
		fields.Set("step", "digits")
		digits := e.submit(fields, "", browser, header("Sec-Fetch-Site", "same-origin"))
		if digits.Status != 200 || !strings.Contains(string(digits.Body), "<img") ||
			fieldsOf(t, digits.Body).Get("saved") == "" {
			t.Errorf("%d %s", digits.Status, digits.Body)
		}
		fields.Del("step")
		if a := e.submit(fields, rep, browser, header("Sec-Fetch-Site", "same-origin")); a.Outcome != OutcomeSolved ||
			a.Status != 307 {
			t.Errorf("the form does not go on: %d %v", a.Status, a.Outcome)
		}
	}
}

// TestNoCircles: a browser that keeps no cookies is not checked again and again, but told.
func TestNoCircles(t *testing.T) {
	e := asking(t, "silent")
	sent := e.c.Redirect(e.request("GET", "https://example.com/page"))
	if page, _ := e.open(sent.Get("Location")); !strings.Contains(string(page.Body), "<img") {
		t.Errorf("without its probe cookie: %s", page.Body)
	}
	browser := keeping(&sent) // keeps that cookie, but loses its passes
	for range checksPerStep {
		page, _ := e.open(sent.Get("Location"), browser)
		if strings.Contains(string(page.Body), "<img") {
			return
		}
		fields, rep := e.pageAnswer(&page, browser)
		a := e.submit(fields, rep, browser)
		browser = keeping(&a)
	}
	if page, _ := e.open(sent.Get("Location"), browser); !strings.Contains(string(page.Body), "<img") &&
		!strings.Contains(string(page.Body), `id="press"`) {
		t.Errorf("still checked: %s", page.Body)
	}
}

// TestLinksKeepTheirStep: the step that a link says holds in its network and while it is fresh; a robot does not get
// the lower one of another visitor's link.
func TestLinksKeepTheirStep(t *testing.T) {
	e := asking(t, "digits")
	unsure := func(q *Request) { q.Unsure = true }
	sent := e.c.Redirect(e.request("GET", "https://example.com/page", unsure))
	browser := keeping(&sent)
	digits := func(want bool, opts ...opt) {
		t.Helper()
		page, _ := e.open(sent.Get("Location"), append(opts, browser)...)
		if got := strings.Contains(string(page.Body), "<img"); got != want {
			t.Errorf("digits: %v, want %v", got, want)
		}
	}
	digits(false)
	digits(true, from("198.51.100.9"))
	digits(true, func(q *Request) { q.Require = 3 })
	e.pass(e.c.cfg.KeyTTL + time.Minute)
	digits(true)
}

// TestScriptsMayCheck: a script gets the check beside the digits, which still pass; XML clients get digits.
func TestScriptsMayCheck(t *testing.T) {
	e := asking(t, "silent")
	var c challengeJSON
	a := e.c.ChallengeJSON(e.request("GET", "https://example.com/api"))
	if err := json.Unmarshal(a.Body, &c); err != nil || c.Captcha.Ask == nil || c.Captcha.Ask.Step != "silent" ||
		c.Captcha.ImgURL == "" {
		t.Fatalf("%v %s", err, a.Body)
	}
	ask := c.Captcha.Ask
	if a := e.answerWork(ask.Key, e.checkAnswer(ask.Key, ask.Work)); a.Outcome != OutcomeSolved ||
		a.Pass.Allowance != 25 {
		t.Errorf("the check: %s %+v", a.Body, a.Pass)
	}
	if a := e.answerWork(c.Captcha.Key, e.answerOf(c.Captcha.Key)); a.Outcome != OutcomeSolved ||
		a.Pass.Allowance < 50 { // the second in a day
		t.Errorf("digits: %s %+v", a.Body, a.Pass)
	}
	if x := e.c.ChallengeXML(e.request("GET", "https://example.com/xml"), false); !strings.Contains(
		string(x.Body), "/captcha/image?key=",
	) {
		t.Errorf("%s", x.Body)
	}
}

// TestSilentCheckCountsLittle: a check adds to the price of an address in proportion to what it earns, so four cost
// their neighbours no more than one who read digits does.
func TestSilentCheckCountsLittle(t *testing.T) {
	e := asking(t, "silent")
	var got []uint32
	for range 4 {
		sent := e.c.Redirect(e.request("GET", "https://example.com/page"))
		browser := keeping(&sent)
		page, _ := e.open(sent.Get("Location"), browser)
		fields, rep := e.pageAnswer(&page, browser)
		a := e.submit(fields, rep, browser)
		got = append(got, a.Pass.Allowance)
		e.pass(stepFades) // so that none is asked for more
	}
	if want := []uint32{25, 21, 17, 14}; !slices.Equal(got, want) {
		t.Errorf("checks earn %v, want %v", got, want)
	}
	if n, err := e.c.prices.earned(t.Context(), addr("203.0.113.7"), e.now()); err != nil || n.day != 1 {
		t.Errorf("four checks count as %v passes: %v", n.day, err)
	}
}

// TestPartsWaitForNothing: an address where many browsers are checked at once, beside a flood for pictures, gets all
// their parts; only what is asked for again and again for one key ends.
func TestPartsWaitForNothing(t *testing.T) {
	e := asking(t, "silent")
	e.c.issuer.maker = media.New(media.Config{Places: 1}) // nobody waits for the place
	defer e.occupy()()
	var image string
	status := func() int { return e.c.Image(e.request("GET", image)).Status }
	for i := range 2 * e.bounds.images.burst {
		sent := e.c.Redirect(e.request("GET", "https://example.com/page"))
		_, fields := e.open(sent.Get("Location"), keeping(&sent))
		if image = "https://example.com/captcha/image?key=" + fields.Get("key"); status() != 200 {
			t.Fatalf("part %d: status %d", i, status())
		}
	}
	for range e.bounds.media.burst {
		status()
	}
	if got := status(); got != 429 {
		t.Errorf("one part, again and again: status %d", got)
	}
}
