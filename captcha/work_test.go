package captcha

import (
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
)

// TestWorkEarnsAPass: doing the work earns the pass that a correct answer to the picture would earn.
func TestWorkEarnsAPass(t *testing.T) {
	e := working(t)
	ordinary := e.c.ChallengeJSON(e.request("GET", "https://example.com/api"))
	if !strings.Contains(string(ordinary.Body), `"work-url":"https://example.com/captcha/work.js"`) {
		t.Errorf("the challenge does not offer work: %s", ordinary.Body)
	}
	o, a := e.askWork()
	if a.Status != 200 || o.Captcha.Work == nil || o.Captcha.ImgURL != "" ||
		o.Captcha.WorkURL != "https://example.com/captcha/work.js" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if a := e.c.Image(e.request("GET", "https://example.com/captcha/image?key="+o.Captcha.Key)); a.Status != 404 {
		t.Errorf("a picture of work: %d", a.Status)
	}
	e.pass(time.Second)
	solved := e.answerWork(o.Captcha.Key, o.Captcha.Work.toil(t))
	if solved.Outcome != OutcomeSolved || solved.Pass.Allowance != 100 || solved.Took != time.Second || !solved.Work ||
		cookies(&solved)["spravka"] == "" {
		t.Errorf("%d %v %+v %s", solved.Status, solved.Outcome, solved.Pass, solved.Body)
	}
	// The captcha page's form carries it like digits.
	_, fields := e.visit("https://example.com/page?a=1")
	o, _ = e.askWork()
	fields.Set("key", o.Captcha.Key)
	if a := e.submit(fields, o.Captcha.Work.toil(t)); a.Outcome != OutcomeSolved ||
		a.Get("Location") != "https://example.com/page?a=1" {
		t.Errorf("%d %v %s", a.Status, a.Outcome, a.Get("Location"))
	}
}

// TestWorkIsAChoice: a service that does not enable work offers none, and accepts none that was started before.
func TestWorkIsAChoice(t *testing.T) {
	e := working(t)
	o, _ := e.askWork()
	rep := o.Captcha.Work.toil(t)
	e.svc = e.newService("shop", DefaultServiceConfig(), identity.DefaultServiceConfig())
	if a := e.answerWork(o.Captcha.Key, rep); a.Outcome == OutcomeSolved {
		t.Error("work counts where it is not offered")
	}
	if o, _ := e.askWork(); o.Captcha.Work != nil || o.Captcha.ImgURL == "" {
		t.Errorf("asked for work: %+v", o)
	}
	page, _ := e.visit("https://example.com/")
	if strings.Contains(string(page.Body), `id="work"`) ||
		strings.Contains(page.Get("Content-Security-Policy"), "worker-src") {
		t.Error("the page offers work")
	}
}

// TestWorkOnThePage: the offer is hidden until a script shows it, and the content security policy allows what it needs.
func TestWorkOnThePage(t *testing.T) {
	e := working(t)
	page, _ := e.visit("https://example.com/")
	offer := between(t, string(page.Body), `<div id="work"`, ">")
	if !strings.HasSuffix(offer, " hidden") || !strings.Contains(offer, `data-url="/captcha/work.js"`) {
		t.Errorf("offer: %s", offer)
	}
	for _, want := range []string{"worker-src 'self'", "connect-src 'self'", "default-src 'none'"} {
		if csp := page.Get("Content-Security-Policy"); !strings.Contains(csp, want) {
			t.Errorf("policy without %s: %s", want, csp)
		}
	}
	if a := e.c.Static(e.request("GET", "https://example.com/captcha/work.js"), "/captcha/work.js"); a.Status != 200 ||
		!strings.HasPrefix(a.Get("Content-Type"), "text/javascript") {
		t.Errorf("work.js: %d %s", a.Status, a.Get("Content-Type"))
	}
	scfg := DefaultServiceConfig()
	scfg.Work, scfg.Prefix = true, "/_check"
	e.svc = e.newService("below", scfg, identity.DefaultServiceConfig())
	if page, _ := e.visit("https://example.com/"); !strings.Contains(
		string(page.Body), `data-url="/_check/captcha/work.js"`,
	) {
		t.Error("the prefix is missing")
	}
	if !strings.Contains(e.formPageOf(t), `<div id="work"`) {
		t.Error("a page that carries a form offers no work")
	}
}

// TestPitfall02WorkIsNotTheClientsChoice: an answer is checked against what was asked.
func TestPitfall02WorkIsNotTheClientsChoice(t *testing.T) {
	e := working(t)
	refused := func(name string, o offer, rep string, opts ...opt) {
		t.Helper()
		if a := e.answerWork(o.Captcha.Key, rep, opts...); a.Outcome == OutcomeSolved || cookies(&a)["spravka"] != "" {
			t.Errorf("%s: solved", name)
		}
	}
	o, _ := e.askWork()
	easy := *o.Captcha.Work
	easy.Below = 1 << 31
	refused("half of all hashes will do", o, easy.toil(t))
	o, _ = e.askWork()
	right := o.Captcha.Work.toil(t)
	other, _ := e.askWork()
	refused("work for another key, done before", other, right)
	if a := e.answerWork(o.Captcha.Key, right); a.Outcome != OutcomeSolved {
		t.Fatalf("the work is right: %s", a.Body)
	}
	e.pass(keptFor + time.Second)
	refused("the same again", o, right)
	for _, rep := range []string{"0", "314159", strings.Repeat("0.", 15) + "0", strings.Repeat("0.", 16) + "0", strings.Repeat("9", 400), "-1", "1e3", "....", "99999999999"} {
		o, _ = e.askWork()
		refused(rep, o, rep)
	}
	o, _ = e.askWork()
	refused("a number too many", o, o.Captcha.Work.toil(t)+".0")
	o, _ = e.askWork()
	short := o.Captcha.Work.toil(t)
	refused("a number too few", o, short[:strings.LastIndexByte(short, '.')])
	// A picture's digits are not accepted as work, nor work as digits.
	_, fields := e.visit("https://example.com/")
	o, _ = e.askWork()
	if a := e.submit(fields, o.Captcha.Work.toil(t)); a.Outcome == OutcomeSolved {
		t.Error("work answers a picture")
	}
	if a := e.answerWork(o.Captcha.Key, ""); a.Outcome != OutcomeNone {
		t.Error("an empty answer spends a key")
	}
}

// TestPitfall04WorkFitsOnlyItsPlace: work is valid only for the host, service, network, channel and time it was issued
// for.
func TestPitfall04WorkFitsOnlyItsPlace(t *testing.T) {
	f := func(name string, opts ...opt) {
		t.Helper()
		e := working(t)
		o, _ := e.askWork()
		if name == "expired" {
			e.pass(31 * time.Minute)
		}
		opts = slices.Clone(opts)
		for i := range opts {
			if opts[i] == nil {
				scfg := DefaultServiceConfig()
				scfg.Work = true
				opts[i] = service(e.newService("blog", scfg, identity.DefaultServiceConfig()))
			}
		}
		if a := e.answerWork(o.Captcha.Key, o.Captcha.Work.toil(t), opts...); a.Outcome == OutcomeSolved {
			t.Errorf("%s: solved", name)
		}
	}
	f("another network", from("198.51.100.1"))
	f("another host", func(q *Request) { q.View.Host = []byte("www.example.com") })
	f("another service", nil)
	f("expired")
	f("a partner", partner("p"))
	e := working(t)
	o, _ := e.askWork()
	if a := e.c.XCheck(e.request("POST", "https://example.com/xcheckcaptcha", form("key", o.Captcha.Key, "rep", o.Captcha.Work.toil(t)))); a.Outcome == OutcomeSolved {
		t.Error("an XML client answers a page's work")
	}
	if o, _ := e.askWork(partner("p")); o.Captcha.Work != nil {
		t.Error("a partner is offered work")
	}
}

func FuzzWorkAnswer(f *testing.F) {
	var w work
	secret := w.issue(minWork)
	t := w.task(secret)
	f.Add(t.toil(f))
	for _, s := range []string{"", "0", ".", strings.Repeat("0.", 15) + "0", "٣.١", "18446744073709551616", "+1", "0x1"} {
		f.Add(s)
	}
	f.Fuzz(func(tt *testing.T, answer string) {
		right, given := w.check(secret, answer)
		if given != (answer != "") || right && !given {
			tt.Fatalf("right %t, given %t", right, given)
		}
		if right && strings.Count(answer, ".") != t.Parts-1 {
			tt.Fatalf("%q is right", answer)
		}
	})
}

// BenchmarkCheckWork measures what an answer costs the gateway, right and wrong.
func BenchmarkCheckWork(b *testing.B) {
	var w work
	secret := w.issue(1 << 12)
	t := w.task(secret)
	right := t.toil(b)
	f := func(name, answer string, want bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if ok, _ := w.check(secret, answer); ok != want {
					b.Fatal(ok)
				}
			}
		})
	}
	f("right", right, true)
	f("wrong", strings.Repeat("4294967295.", workParts-1)+"4294967295", false)
}

// BenchmarkDoWork measures what the first pass costs somebody who does the work outside a browser, on one core.
func BenchmarkDoWork(b *testing.B) {
	var w work
	cfg := DefaultConfig()
	for b.Loop() {
		t := w.task(w.issue(cfg.workPrice(0)))
		t.toil(b)
	}
}
