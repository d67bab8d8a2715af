package captcha

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/spravka"
	"antirobot/templates"
)

// browser is a browser with a key pair.
type browser struct{ key *ecdsa.PrivateKey }

func newBrowser(t testing.TB) *browser {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{k}
}

// sign signs a text as WebCrypto does.
func (b *browser) sign(t testing.TB, text string) string {
	t.Helper()
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, b.key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	point, err := b.key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	out := append([]byte(nil), point[1:]...)
	return base64.RawURLEncoding.EncodeToString(
		append(append(out, r.FillBytes(make([]byte, 32))...), s.FillBytes(make([]byte, 32))...),
	)
}

// proof is what the pages' scripts add to an answer.
func (b *browser) proof(t testing.TB, key string) string {
	t.Helper()
	return proofMark + b.sign(t, "antirobot\nPOST\nhttps://example.com/checkcaptcha\n"+key)
}

// with makes a request bring a pass, as identity reads it.
func with(p spravka.Pass) opt {
	return func(q *Request) {
		q.setHeader("Cookie", "spravka=x; antirobot_probe="+strings.Repeat("A", probeMarkLen)+".0")
		if p.Away(q.ID.NetKey()) {
			q.ID.Away = p
			return
		}
		q.ID.Passes[0], q.ID.NPasses = p, 1
	}
}

// earnWith solves a page's digits with a browser's key; nil: without one.
func (e *env) earnWith(b *browser, opts ...opt) spravka.Pass {
	e.t.Helper()
	_, fields := e.visit("https://example.com/a", opts...)
	fields.Set("rep", e.answerOf(fields.Get("key")))
	if b != nil {
		fields.Set("proof", b.proof(e.t, fields.Get("key"))[1:])
	}
	a := e.check(append(opts, body("application/x-www-form-urlencoded", fields.Encode()))...)
	if a.Outcome != OutcomeSolved {
		e.t.Fatalf("%d %s", a.Status, a.Body)
	}
	return e.passOf(&a)
}

// passOf opens the pass that an answer sets.
func (e *env) passOf(a *Response) spravka.Pass {
	e.t.Helper()
	p, err := e.ring.OpenPass([]byte(value(cookies(a)["spravka"])), e.now())
	if err != nil {
		e.t.Fatal(err)
	}
	return p
}

// away is what a visitor elsewhere is asked first: the fields of the page that proves who it is.
func (e *env) away(p spravka.Pass, opts ...opt) (page Response, fields url.Values) {
	e.t.Helper()
	return e.visit("https://example.com/b", append(opts, with(p))...)
}

// checked is the answer to a silent check, without a signature.
func (e *env) checked(key string) string {
	e.t.Helper()
	k, _, err := e.c.issuer.open(e.request("GET", "https://example.com/"), key, e.now())
	if err != nil || len(k.secret) != silentSecret {
		e.t.Fatalf("no check: %v, kind %d", err, k.kind)
	}
	w := work{}.task(k.secret[:workSeed+4])
	return w.toil(e.t) + partMark + strconv.Itoa(int(k.secret[workSeed+4])<<8|int(k.secret[workSeed+5]))
}

const elsewhere = "198.51.100.9"

// TestPassMovesWithItsBrowser: in another network the browser that earned a pass proves itself, and keeps it: the same
// pass with what is left of it, for the new network, too; it is not asked anything, and nothing is earned.
func TestPassMovesWithItsBrowser(t *testing.T) {
	e := newEnv(t, nil)
	b := newBrowser(t)
	p := e.earnWith(b)
	if !p.Keyed() || p.Away(identity.NetKey(identity.NetOf(addr("203.0.113.200")))) {
		t.Fatalf("not bound to its browser: %+v", p)
	}
	there := []opt{from(elsewhere), with(p)}
	page, fields := e.away(p, from(elsewhere))
	if !strings.Contains(string(page.Body), `data-part=`) {
		t.Fatalf("asked for more than a check: %s", page.Body)
	}
	rep := e.checked(fields.Get("key")) + b.proof(t, fields.Get("key"))
	fields.Set("rep", rep)
	answer := func(opts ...opt) Response {
		return e.check(append(opts, body("application/x-www-form-urlencoded", fields.Encode()))...)
	}
	a := answer(there...)
	if a.Status != 303 || a.Get("Location") != "https://example.com/b" || a.Outcome != OutcomeNone {
		t.Fatalf("%d to %s: %s", a.Status, a.Get("Location"), a.Body)
	}
	moved := e.passOf(&a)
	net := identity.NetKey(identity.NetOf(addr(elsewhere)))
	want := p
	want.Places = [3]uint64{net}
	if moved != want {
		t.Errorf("the pass became %+v, want %+v", moved, want)
	}
	if c := e.c.Challenges(); c.Total.Solved != 1 || c.Total.Shown != 1 {
		t.Errorf("a move counts as a challenge: %+v", c.Total)
	}
	if a = answer(there...); cookies(&a)["spravka"] != "" {
		t.Error("one proof was taken twice")
	}
}

// TestCopiedPassIsWorthNothing: without the key of the browser that earned it, a pass buys nothing in another network:
// neither with no signature, nor with one of another key, an older one, or one for another host; then it is asked like
// everybody.
func TestCopiedPassIsWorthNothing(t *testing.T) {
	e := newEnv(t, nil)
	b, thief := newBrowser(t), newBrowser(t)
	p := e.earnWith(b)
	_, stale := e.away(p, from(elsewhere))
	for name, proof := range map[string]func(key string) string{
		"none":         func(string) string { return "" },
		"another key":  func(key string) string { return thief.proof(t, key) },
		"another time": func(string) string { return b.proof(t, stale.Get("key")) },
		"another host": func(key string) string {
			return proofMark + b.sign(t, "antirobot\nPOST\nhttps://evil.example/checkcaptcha\n"+key)
		},
		"malformed": func(string) string { return proofMark + strings.Repeat("A", proofLen) },
	} {
		_, fields := e.away(p, from(elsewhere))
		fields.Set("rep", e.checked(fields.Get("key"))+proof(fields.Get("key")))
		a := e.check(from(elsewhere), with(p), body("application/x-www-form-urlencoded", fields.Encode()))
		if cookies(&a)["spravka"] != "" {
			t.Errorf("%s: the pass has moved", name)
		}
		page, _ := e.open(a.Get("Location"), from(elsewhere), with(p))
		if !strings.Contains(string(page.Body), `id="rep"`) {
			t.Errorf("%s: not asked for digits: %s", name, page.Body)
		}
	}
}

// TestMoveTakesAProofInTime: a proof is good for two minutes.
func TestMoveTakesAProofInTime(t *testing.T) {
	e := newEnv(t, nil)
	b := newBrowser(t)
	p := e.earnWith(b)
	_, fields := e.away(p, from(elsewhere))
	fields.Set("rep", e.checked(fields.Get("key"))+b.proof(t, fields.Get("key")))
	e.pass(moveFor + time.Second)
	a := e.check(from(elsewhere), with(p), body("application/x-www-form-urlencoded", fields.Encode()))
	if cookies(&a)["spravka"] != "" {
		t.Error("an old proof was taken")
	}
}

// TestScriptsMoveTheirPass: a script gets the check beside the digits, and the pass with its answer; once it has
// failed, it is asked like everybody.
func TestScriptsMoveTheirPass(t *testing.T) {
	e := newEnv(t, nil)
	b := newBrowser(t)
	p := e.earnWith(b)
	there := []opt{from(elsewhere), with(p), header("Accept", "application/json")}
	for _, proved := range []bool{false, true} {
		a := e.c.ChallengeJSON(e.request("GET", "https://example.com/api", there...))
		var c challengeJSON
		if err := json.Unmarshal(a.Body, &c); err != nil || c.Captcha.Ask == nil || c.Captcha.Ask.Step != "silent" {
			t.Fatalf("%v: %s", err, a.Body)
		}
		rep := e.checked(c.Captcha.Ask.Key)
		if proved {
			rep += b.proof(t, c.Captcha.Ask.Key)
		}
		a = e.check(append(there, form("key", c.Captcha.Ask.Key, "rep", rep))...)
		if got := cookies(&a)["spravka"] != ""; got != proved {
			t.Errorf("proved %v: moved %v: %s", proved, got, a.Body)
		}
		if !proved && strings.Contains(string(a.Body), `"ask"`) {
			t.Errorf("offered again: %s", a.Body)
		}
	}
}

// TestWhoIsNotBound: without a signature, where the service does not want it, and where the pass is for several hosts,
// on which the browser has other keys, a pass is bound to nothing.
func TestWhoIsNotBound(t *testing.T) {
	for name, edit := range map[string]func(*Config, *ServiceConfig, *identity.ServiceConfig){
		"off": func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Bind = false },
		"domains": func(_ *Config, _ *ServiceConfig, i *identity.ServiceConfig) {
			i.Domain = "example.com"
		},
	} {
		if p := newEnv(t, edit).earnWith(newBrowser(t)); p.Keyed() {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := newEnv(t, nil).earnWith(nil); p.Keyed() {
		t.Errorf("no signature: %+v", p)
	}
}

// TestMoveAnswersNoQuestion: where a message or the service asks for an answer, a move is none.
func TestMoveAnswersNoQuestion(t *testing.T) {
	e := newEnv(t, nil)
	p := e.earnWith(newBrowser(t))
	for _, reason := range []templates.Reason{templates.ReasonMessage, templates.ReasonService} {
		e.pass(2 * time.Minute)
		a := e.c.ChallengeJSON(e.request("GET", "https://example.com/api", from(elsewhere), with(p),
			func(q *Request) { q.Reason = reason }))
		if strings.Contains(string(a.Body), `"ask"`) {
			t.Errorf("%v: %s", reason, a.Body)
		}
	}
}

func FuzzProof(f *testing.F) {
	e := newEnv(f, nil)
	q := e.request("POST", "https://example.com/checkcaptcha")
	b := newBrowser(f)
	good := b.proof(f, "k")[1:]
	p := params{rep: "1.2x77" + proofMark + good + "xk3.500.80"} // antirobot.js adds how a button was pressed
	if p.cutProof(); p.rep != "1.2x77xk3.500.80" || p.proof != good {
		f.Fatalf("%+v", p)
	}
	f.Add("123456" + proofMark + good)
	f.Add(proofMark)
	f.Fuzz(func(t *testing.T, rep string) {
		p := params{key: "k", rep: rep}
		p.cutProof()
		if len(p.proof) > proofLen || len(p.rep)+len(p.proof) > len(rep) {
			t.Fatalf("%q became %q and %q", rep, p.rep, p.proof)
		}
		if q.readProof("k", p.proof) != [16]byte{} && p.proof != good {
			t.Fatalf("%q is taken for a signature", p.proof)
		}
	})
}
