package captcha

import (
	"testing"
	"time"
)

// TestALostResponse: a browser that sends its right answer again within a minute, because the response to the first
// one was lost, is given the same pass again, on each node and in each form; nobody else is, and nothing is earned by
// it.
func TestALostResponse(t *testing.T) {
	e := newEnv(t, digitsOnly)
	page, fields := e.visit("https://example.com/a")
	rep := e.answerOf(fields.Get("key"))
	e.pass(3 * time.Second)
	first := e.submit(fields, rep)
	if first.Outcome != OutcomeSolved {
		t.Fatalf("status %d, outcome %d", first.Status, first.Outcome)
	}
	nodes := []*Captcha{e.c, e.newCaptcha(e.c.cfg)}
	probe := header("Cookie", "antirobot_probe="+value(cookies(&page)["antirobot_probe"]))
	other := header(
		"User-Agent",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36",
	)
	f := func(what string, want bool, rep string, opts ...opt) {
		t.Helper()
		for n, node := range nodes {
			e.c = node
			a := e.submit(fields, rep, opts...)
			if a.Outcome == OutcomeSolved || want != (cookies(&a)["spravka"] != "") {
				t.Errorf("%s, node %d: status %d, outcome %d", what, n, a.Status, a.Outcome)
			} else if want && e.passOf(&a) != first.Pass {
				t.Errorf("%s, node %d: another pass: %+v", what, n, e.passOf(&a))
			}
		}
	}
	f("again", true, rep)
	f("again, with the pass", true, rep, withPass(&first))
	f("a script", true, rep, header("Accept", "application/json"))
	f("the browser elsewhere", true, rep, from(elsewhere), probe)
	e.pass(keptFor - 5*time.Second)
	f("another browser", false, rep, other)
	f("somebody elsewhere", false, rep, from(elsewhere))
	f("a wrong answer", false, wrong(rep))
	f("within a minute", true, rep)
	e.pass(10 * time.Second)
	f("later", false, rep)
	if n, err := e.c.prices.earned(t.Context(), addr("203.0.113.7"), e.now()); err != nil || n.day != 1 {
		t.Errorf("%v passes count, %v", n.day, err)
	}
}

// TestALostResponseIsTheBrowsers: a pass that is bound to a key pair is given again to that one alone.
func TestALostResponseIsTheBrowsers(t *testing.T) {
	e := newEnv(t, digitsOnly)
	mine, foreign := newBrowser(t), newBrowser(t)
	_, fields := e.visit("https://example.com/a")
	key, rep := fields.Get("key"), e.answerOf(fields.Get("key"))
	send := func(b *browser) Response {
		if fields.Del("proof"); b != nil {
			fields.Set("proof", b.proof(t, key)[1:])
		}
		return e.submit(fields, rep)
	}
	first := send(mine)
	if first.Outcome != OutcomeSolved || !first.Pass.Keyed() {
		t.Fatalf("outcome %d", first.Outcome)
	}
	for _, b := range []*browser{foreign, nil} {
		if a := send(b); cookies(&a)["spravka"] != "" {
			t.Error("a pass with a key is given to who has none, or another")
		}
	}
	if a := send(mine); cookies(&a)["spravka"] == "" || e.passOf(&a).ID != first.Pass.ID {
		t.Errorf("again: status %d", a.Status)
	}
}

// TestALostResponseToAForm: the form goes to the service once, and its pass arrives with what says so.
func TestALostResponseToAForm(t *testing.T) {
	e := newEnv(t, digitsOnly)
	page, fields := e.challengeForm()
	browser := []opt{
		header("Cookie", "antirobot_probe="+value(cookies(&page)["antirobot_probe"])),
		header("Sec-Fetch-Site", "same-origin"),
	}
	rep := e.answerOf(fields.Get("key"))
	first := e.submit(fields, rep, browser...)
	again := e.submit(fields, rep, browser...)
	if again.Status != 307 || e.passOf(&again).ID != first.Pass.ID {
		t.Fatalf("before the form is sent: status %d", again.Status)
	}
	if sent := e.comeBack(fields, &again, browser...); sent.Resend == nil {
		t.Fatalf("status %d", sent.Status)
	}
	if a := e.submit(fields, rep, browser...); a.Status != 409 || a.Resend != nil || e.passOf(&a).ID != first.Pass.ID {
		t.Errorf("after it: status %d", a.Status)
	}
	if a := e.submit(fields, wrong(rep), browser...); a.Status != 409 || cookies(&a)["spravka"] != "" {
		t.Errorf("after it, a wrong answer: status %d", a.Status)
	}
}

// TestALostResponseToAPartner: its user's pass is given again.
func TestALostResponseToAPartner(t *testing.T) {
	e := newEnv(t, nil)
	site := partner("megasearch")
	a := e.c.ChallengeXML(e.request("GET", "http://example.com/xml", from("203.0.113.7"), site), false)
	x := readXML(t, a)
	var ids [][16]byte
	for range 2 {
		a = e.c.XCheck(e.request("GET", "http://example.com/xcheckcaptcha?key="+x.Key+"&rep="+e.answerOf(x.Key),
			from("192.0.2.200"), site))
		ids = append(ids, e.passOf(&a).ID)
	}
	if ids[0] != ids[1] {
		t.Errorf("%x", ids)
	}
}
