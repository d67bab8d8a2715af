package captcha

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"antirobot/identity"
	"antirobot/spravka"
)

// working is an env whose service offers work, at a price that a test can pay.
func working(t testing.TB, edit func(*Config)) *env {
	t.Helper()
	return newEnv(t, func(c *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
		s.Work = true
		c.Work.Hashes, c.Work.MaxHashes = minWork, 1<<16
		c.Rates.Checks = Rate{PerMinute: 60_000, Burst: 10_000}
		if edit != nil {
			edit(c)
		}
	})
}

// offer is what a client gets when it asks for work.
type offer struct {
	Type    string
	Captcha struct {
		Key     string
		Status  string
		WorkURL string `json:"work-url"`
		ImgURL  string `json:"img-url"`
		Work    *task
	}
}

func (e *env) askWork(opts ...opt) (offer, Response) {
	e.t.Helper()
	a := e.c.Check(e.request("POST", "https://example.com/checkcaptcha", append([]opt{form("new", "1", "kind", "work", "format", "json")}, opts...)...))
	var o offer
	if err := json.Unmarshal(a.Body, &o); err != nil {
		e.t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	return o, a
}

// toil does the work as the docs describe it.
func (w *task) toil(t testing.TB) string {
	t.Helper()
	seed, err := hex.DecodeString(w.Seed)
	if err != nil || len(seed) != 16 {
		t.Fatalf("seed %q", w.Seed)
	}
	var found []string
	for part := range w.Parts {
		for n := uint32(0); ; n++ {
			b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(seed[:16:16], uint32(part)), n)
			if sum := sha256.Sum256(b); binary.BigEndian.Uint32(sum[:]) < w.Below {
				found = append(found, strconv.FormatUint(uint64(n), 10))
				break
			}
		}
	}
	return strings.Join(found, ".")
}

func (e *env) answerWork(key, rep string, opts ...opt) Response {
	return e.c.Check(e.request("POST", "https://example.com/checkcaptcha", append([]opt{form("key", key, "rep", rep, "format", "json")}, opts...)...))
}

// TestWorkEarnsAPass: who does the work gets the pass that a right answer to the picture would earn.
func TestWorkEarnsAPass(t *testing.T) {
	e := working(t, nil)
	ordinary := e.c.ChallengeJSON(e.request("GET", "https://example.com/api"))
	if !strings.Contains(string(ordinary.Body), `"work-url":"https://example.com/captcha/work.js"`) {
		t.Errorf("the challenge does not offer work: %s", ordinary.Body)
	}
	o, a := e.askWork()
	if a.Status != 200 || o.Captcha.Work == nil || o.Captcha.ImgURL != "" || o.Captcha.WorkURL != "https://example.com/captcha/work.js" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if a := e.c.Image(e.request("GET", "https://example.com/captcha/image?key="+o.Captcha.Key)); a.Status != 404 {
		t.Errorf("a picture of work: %d", a.Status)
	}
	e.pass(time.Second)
	solved := e.answerWork(o.Captcha.Key, o.Captcha.Work.toil(t))
	if solved.Outcome != OutcomeSolved || solved.Pass.Allowance != 100 || solved.Took != time.Second || !solved.Work || cookies(&solved)["spravka"] == "" {
		t.Errorf("%d %v %+v %s", solved.Status, solved.Outcome, solved.Pass, solved.Body)
	}
	// The captcha page's form carries it like digits.
	_, fields := e.visit("https://example.com/page?a=1")
	o, _ = e.askWork()
	fields.Set("key", o.Captcha.Key)
	if a := e.submit(fields, o.Captcha.Work.toil(t)); a.Outcome != OutcomeSolved || a.Get("Location") != "https://example.com/page?a=1" {
		t.Errorf("%d %v %s", a.Status, a.Outcome, a.Get("Location"))
	}
}

// TestWorkIsAChoice: a service that does not say so offers none, and takes none that was begun before.
func TestWorkIsAChoice(t *testing.T) {
	e := working(t, nil)
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
	if strings.Contains(string(page.Body), `id="work"`) || strings.Contains(page.Get("Content-Security-Policy"), "worker-src") {
		t.Error("the page offers work")
	}
}

// TestWorkOnThePage: the offer is hidden until a script shows it, and the policy allows what it needs.
func TestWorkOnThePage(t *testing.T) {
	e := working(t, nil)
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
	if a := e.c.Static(e.request("GET", "https://example.com/captcha/work.js"), "/captcha/work.js"); a.Status != 200 || !strings.HasPrefix(a.Get("Content-Type"), "text/javascript") {
		t.Errorf("work.js: %d %s", a.Status, a.Get("Content-Type"))
	}
	scfg := DefaultServiceConfig()
	scfg.Work, scfg.Prefix = true, "/_check"
	e.svc = e.newService("below", scfg, identity.DefaultServiceConfig())
	if page, _ := e.visit("https://example.com/"); !strings.Contains(string(page.Body), `data-url="/_check/captcha/work.js"`) {
		t.Error("the prefix is missing")
	}
	if !strings.Contains(e.formPageOf(t), `<div id="work"`) {
		t.Error("a page that carries a form offers no work")
	}
}

func (e *env) formPageOf(t *testing.T) string {
	t.Helper()
	a := e.c.ChallengeForm(e.request("POST", "https://example.com/post", form("text", "x")))
	return string(a.Body)
}

// TestPitfall02WorkIsNotTheClientsChoice: what was asked is what is checked.
func TestPitfall02WorkIsNotTheClientsChoice(t *testing.T) {
	e := working(t, nil)
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
	// The digits of a picture are no work, and work is no digits.
	_, fields := e.visit("https://example.com/")
	o, _ = e.askWork()
	if a := e.submit(fields, o.Captcha.Work.toil(t)); a.Outcome == OutcomeSolved {
		t.Error("work answers a picture")
	}
	if a := e.answerWork(o.Captcha.Key, ""); a.Outcome != OutcomeNone {
		t.Error("an empty answer spends a key")
	}
}

// TestPitfall04WorkFitsOnlyItsPlace: host, service, network, channel and time are those that it was asked at.
func TestPitfall04WorkFitsOnlyItsPlace(t *testing.T) {
	f := func(name string, opts ...opt) {
		t.Helper()
		e := working(t, nil)
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
	e := working(t, nil)
	o, _ := e.askWork()
	if a := e.c.XCheck(e.request("POST", "https://example.com/xcheckcaptcha", form("key", o.Captcha.Key, "rep", o.Captcha.Work.toil(t)))); a.Outcome == OutcomeSolved {
		t.Error("an XML client answers a page's work")
	}
	if o, _ := e.askWork(partner("p")); o.Captcha.Work != nil {
		t.Error("a partner is offered work")
	}
}

// TestWorkGrows: passes of an address and of its network make the next one dearer, up to a bound.
func TestWorkGrows(t *testing.T) {
	cfg := DefaultConfig()
	for _, c := range []struct{ hour, day, want int64 }{
		{0, 0, 200_000},
		{0, 8, 200_000},
		{1, 1, 250_000},
		{4, 4, 400_000},
		{19, 19, 1_150_000},
		{0, 16, 400_000},
		{0, 80, 2_000_000},
		{1 << 60, 0, 2_000_000},
		{0, 1 << 60, 2_000_000},
	} {
		if got := cfg.workPrice(c.hour, c.day); got != c.want {
			t.Errorf("%d in the hour, %d in the day: %d, wanted %d", c.hour, c.day, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		hour, day := rapid.Int64Range(0, 1<<40).Draw(t, "hour"), rapid.Int64Range(0, 1<<40).Draw(t, "day")
		price := cfg.workPrice(hour, day)
		if price < cfg.Work.Hashes || price > cfg.Work.MaxHashes || price > cfg.workPrice(hour+1, day) || price > cfg.workPrice(hour, day+1) {
			t.Fatalf("price %d", price)
		}
	})
	e := working(t, nil)
	first, _ := e.askWork()
	for range 4 {
		o, _ := e.askWork()
		if a := e.answerWork(o.Captcha.Key, o.Captcha.Work.toil(t)); a.Outcome != OutcomeSolved {
			t.Fatalf("%s", a.Body)
		}
	}
	if o, _ := e.askWork(); o.Captcha.Work.Below*2 != first.Captcha.Work.Below {
		t.Errorf("after four passes a part is one of %d, at first one of %d", o.Captcha.Work.Below, first.Captcha.Work.Below)
	}
	if o, _ := e.askWork(from("198.51.100.1")); o.Captcha.Work.Below != first.Captcha.Work.Below {
		t.Error("another network pays for this one")
	}
}

// TestPitfall12WorkIsNotHoarded: a client that collects cheap challenges and answers them together, in parallel and over
// two nodes, gets few passes at that price, and never more than an address may earn.
func TestPitfall12WorkIsNotHoarded(t *testing.T) {
	e := working(t, nil)
	nodes := []*Captcha{e.c, e.newCaptcha(e.c.cfg)}
	hoard := func(opts ...opt) (keys, reps []string) {
		for range 24 {
			o, _ := e.askWork(opts...)
			keys, reps = append(keys, o.Captcha.Key), append(reps, o.Captcha.Work.toil(t))
		}
		return keys, reps
	}
	// A quarter more for each pass: above twice the price after the fourth.
	keys, reps := hoard(from("198.51.100.1"))
	inTurn := 0
	for i := range keys {
		if a := e.answerWork(keys[i], reps[i], from("198.51.100.1")); a.Outcome == OutcomeSolved {
			inTurn++
		}
	}
	if inTurn != 5 {
		t.Errorf("%d passes at the first price, one after the other", inTurn)
	}
	keys, reps = hoard()
	var wg sync.WaitGroup
	outcomes := make(chan Outcome, len(keys))
	for i := range keys {
		q := e.request("POST", "https://example.com/checkcaptcha", form("key", keys[i], "rep", reps[i], "format", "json"))
		wg.Go(func() {
			a := nodes[i%2].Check(q)
			outcomes <- a.Outcome
		})
	}
	wg.Wait()
	close(outcomes)
	solved := 0
	for o := range outcomes {
		if o == OutcomeSolved {
			solved++
		}
	}
	if solved > 5 { // fewer, where they are counted before the first is looked at
		t.Errorf("%d passes at the first price, all at once", solved)
	}
	if a := e.c.Page(e.request("GET", "https://example.com/showcaptcha?cc=1")); a.Status != 429 {
		t.Errorf("after 24 answers: %d", a.Status)
	}
	if _, a := e.askWork(); a.Status != 429 || a.Get("Retry-After") == "" || a.Outcome != OutcomeLimited {
		t.Errorf("asks for work that can earn nothing: %d %v", a.Status, a.Header)
	}
}

// TestPitfall12AskingForWorkIsLimited: to ask costs reads of the store, and has the rate of answers.
func TestPitfall12AskingForWorkIsLimited(t *testing.T) {
	e := working(t, func(c *Config) { c.Rates.Checks = Rate{PerMinute: 6, Burst: 3} })
	var got []int
	for range 4 {
		_, a := e.askWork()
		got = append(got, a.Status)
	}
	if fmt.Sprint(got) != "[200 200 200 429]" {
		t.Errorf("statuses %v", got)
	}
}

// TestWorkAllowance: by config work earns a share of what digits do.
func TestWorkAllowance(t *testing.T) {
	e := working(t, func(c *Config) { c.Work.AllowancePercent = 40 })
	o, _ := e.askWork()
	if a := e.answerWork(o.Captcha.Key, o.Captcha.Work.toil(t)); a.Pass.Allowance != 40 {
		t.Errorf("allowance %d", a.Pass.Allowance)
	}
	_, fields := e.visit("https://example.com/")
	if a := e.submit(fields, e.answerOf(fields.Get("key"))); a.Pass.Allowance != 100 || a.Work {
		t.Errorf("allowance of digits %d", a.Pass.Allowance)
	}
	c := DefaultConfig()
	c.Work.AllowancePercent, c.Pass = 1, spravka.Config{Allowance: 20, AllowanceFloor: 1, FullPasses: 1}
	if got := c.allowanceOf(workCode, 1); got != 1 {
		t.Errorf("a pass for %d requests", got)
	}
}

// TestNothingIsStoredForWork: an open challenge is in nobody's memory: counts are read, none is written.
func TestNothingIsStoredForWork(t *testing.T) {
	e := working(t, nil)
	o := &order{Store: e.store}
	e.store = reads{o, t}
	e.c = e.newCaptcha(e.c.cfg)
	for range 100 {
		e.askWork()
	}
	if strings.Trim(strings.Join(o.asked, ""), "incr") != "" {
		t.Errorf("asked the store %v", o.asked)
	}
}

// reads is a store that is read only.
type reads struct {
	*order
	t *testing.T
}

func (r reads) Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error) {
	if n != 0 {
		r.t.Errorf("%s grows by %d", key, n)
	}
	return r.order.Incr(ctx, key, n, ttl)
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

// BenchmarkCheckWork is what an answer costs the gateway, right and wrong.
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

// BenchmarkDoWork is what the first pass costs somebody who works outside of a browser, on one core.
func BenchmarkDoWork(b *testing.B) {
	var w work
	cfg := DefaultConfig()
	for b.Loop() {
		t := w.task(w.issue(cfg.workPrice(0, 0)))
		t.toil(b)
	}
}
