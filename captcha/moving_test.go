package captcha

import (
	"encoding/json"
	"html"
	"image/gif"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// directions reads the answer of a moving picture from its key, which no client can do, as digits of a keypad.
func (e *env) directions(token string) string {
	e.t.Helper()
	k, _, err := e.c.issuer.open(e.request("GET", "https://example.com/"), token, e.now())
	if err != nil || k.kind != movingCode {
		e.t.Fatalf("no moving picture: %v, kind %d", err, k.kind)
	}
	var b strings.Builder
	for _, d := range k.secret[2:] {
		b.WriteString(strconv.Itoa(int(d)))
	}
	return b.String()
}

// TestMovingPictures: only the last answer tells whether all were right, and it earns the pass.
func TestMovingPictures(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrong [movingRounds]bool
		right bool
	}{{"right", [movingRounds]bool{}, true}, {"first wrong", [movingRounds]bool{true, false}, false}, {"last wrong", [movingRounds]bool{false, true}, false}} {
		e := asking(t, "dynamic")
		sent := e.c.Redirect(e.request("GET", "https://example.com/page?a=1"))
		browser := keeping(&sent)
		page, fields := e.open(sent.Get("Location"), browser)
		var a Response
		for round, wrong := range c.wrong {
			if !strings.Contains(string(page.Body), `data-moving="Dots drift`) {
				t.Fatalf("%s: no moving picture: %s", c.name, page.Body)
			}
			rep := e.directions(fields.Get("key"))
			if wrong {
				rep = strings.Repeat("5", len(rep))
			}
			a = e.submit(fields, rep, browser)
			if round+1 < movingRounds {
				if a.Outcome != OutcomeNone || a.Status != 303 || strings.Contains(a.Get("Location"), "status=") {
					t.Errorf("%s: after an act %v %d %s", c.name, a.Outcome, a.Status, a.Get("Location"))
				}
				if again := e.submit(fields, rep, browser); strings.Contains(again.Get("Location"), "&key=") {
					t.Errorf("%s: an act counts twice: %s", c.name, again.Get("Location"))
				}
				page, fields = e.open(a.Get("Location"), browser)
			}
		}
		if got := a.Outcome == OutcomeSolved; got != c.right ||
			got && (a.Pass.Allowance != 100 || a.Get("Location") != "https://example.com/page?a=1") {
			t.Errorf("%s: %v %+v %s", c.name, a.Outcome, a.Pass, a.Get("Location"))
		}
	}
}

// TestMovingPicturesCountOnce: both rounds of a moving picture are one challenge, on a page, for a form and for a
// script: it is given up by whoever leaves it after the first.
func TestMovingPicturesCountOnce(t *testing.T) {
	ways := map[string]func(e *env, rounds int){
		"page": func(e *env, rounds int) {
			at := e.c.Redirect(e.request("GET", "https://example.com/page"))
			browser := keeping(&at)
			for range rounds {
				_, fields := e.open(at.Get("Location"), browser)
				e.loads(fields.Get("key"))
				at = e.submit(fields, e.directions(fields.Get("key")), browser)
			}
		},
		"form": func(e *env, rounds int) {
			a := e.c.ChallengeForm(e.request("POST", "https://example.com/post", form("text", "x")))
			browser := keeping(&a)
			for range rounds {
				fields := fieldsOf(t, a.Body)
				e.loads(fields.Get("key"))
				a = e.submit(fields, e.directions(fields.Get("key")), browser, header("Sec-Fetch-Site", "same-origin"))
			}
		},
		"script": func(e *env, rounds int) {
			a := e.c.ChallengeJSON(e.request("GET", "https://example.com/api"))
			for range rounds {
				var c challengeJSON
				if err := json.Unmarshal(a.Body, &c); err != nil {
					t.Fatal(err)
				}
				e.loads(c.Captcha.Ask.Key)
				a = e.answerWork(c.Captcha.Ask.Key, e.directions(c.Captcha.Ask.Key))
			}
		},
	}
	for way, ask := range ways {
		e := asking(t, "dynamic")
		ask(e, movingRounds)
		if n := rowNamed(e.c.Challenges().Ways, "dynamic"); n.Shown != 1 || n.Loaded != 1 || n.Tried != 1 ||
			n.Solved != 1 || n.GaveUp != 0 {
			t.Errorf("%s: solved: %+v", way, n)
		}
		ask(e, 1)
		if n := rowNamed(e.c.Challenges().Ways, "dynamic"); n.Shown != 2 || n.Loaded != 2 || n.Solved != 1 ||
			n.GaveUp != 1 || e.c.Challenges().Total.Shown != 2 {
			t.Errorf("%s: left after the first round: %+v", way, n)
		}
	}
}

// loads fetches the picture of a key.
func (e *env) loads(key string) {
	e.t.Helper()
	if a := e.c.Image(e.request("GET", "https://example.com/captcha/image?key="+url.QueryEscape(key))); a.Status != 200 {
		e.t.Fatalf("the picture: status %d", a.Status)
	}
}

// TestMovingMedia: the picture moves, and the sound says the same directions.
func TestMovingMedia(t *testing.T) {
	e := asking(t, "dynamic")
	sent := e.c.Redirect(e.request("GET", "https://example.com/page"))
	_, fields := e.open(sent.Get("Location"), keeping(&sent))
	img := e.c.Image(e.request("GET", "https://example.com/captcha/image?key="+url.QueryEscape(fields.Get("key"))))
	g, err := gif.DecodeAll(strings.NewReader(string(img.Body)))
	if err != nil || len(g.Image) < 20 || img.Get("Content-Type") != "image/gif" {
		t.Errorf("the picture: %d %v %v", img.Status, img.Header, err)
	}
	wav := e.c.Audio(e.request("GET", "https://example.com/captcha/audio?key="+url.QueryEscape(fields.Get("key"))))
	if wav.Status != 200 || !strings.HasPrefix(string(wav.Body), "RIFF") {
		t.Errorf("the sound: %d %v", wav.Status, wav.Header)
	}
}

// TestDigitsInPlaceOfMoving: whoever can't follow the picture takes digits, made harder, for half the worth.
func TestDigitsInPlaceOfMoving(t *testing.T) {
	e := asking(t, "dynamic")
	sent := e.c.Redirect(e.request("GET", "https://example.com/page"))
	browser := keeping(&sent)
	page, fields := e.open(sent.Get("Location")+"&step=digits", browser)
	if strings.Contains(string(page.Body), "data-moving") {
		t.Fatal("it still moves")
	}
	if a := e.submit(fields, e.answerOf(fields.Get("key")), browser); a.Outcome != OutcomeSolved ||
		a.Pass.Allowance != 50 {
		t.Errorf("%v %+v", a.Outcome, a.Pass)
	}
}

// TestMovingWithoutScripts: a browser without scripts finds digits on the page of a moving picture, which cost what
// they cost whoever asks for them instead, and digits again after an error or for another picture; on a page that
// carries a form, too. The page is small with either picture, in every language.
func TestMovingWithoutScripts(t *testing.T) {
	e := asking(t, "dynamic")
	sent := e.c.Redirect(e.request("GET", "https://example.com/page"))
	browser := keeping(&sent)
	page, _ := e.open(sent.Get("Location"), browser)
	still := func(page *Response) url.Values {
		t.Helper()
		fields, moving := formOf(t, page.Body)
		if k, _, err := e.c.issuer.open(e.request("GET", "https://example.com/"), fields.Get("key"), e.now()); err != nil ||
			k.kind != digitsCode || k.level != maxLevel {
			t.Fatalf("no digits: %v %+v", err, k)
		}
		if moving != "" &&
			!strings.Contains(string(page.Body), `<noscript><img src="/captcha/image?key=`+fields.Get("key")) {
			t.Errorf("the picture is loaded by browsers with scripts, too:\n%s", page.Body)
		}
		return fields
	}
	fields := still(&page)
	failed := e.submit(fields, wrong(e.answerOf(fields.Get("key"))), browser)
	if page, _ = e.open(failed.Get("Location"), browser); strings.Contains(string(page.Body), "data-moving") ||
		!strings.Contains(string(page.Body), `id="problem"`) {
		t.Errorf("after an error: %s", page.Body)
	}
	another := html.UnescapeString(between(t, string(page.Body), `<a class="keep" href="`, `"`))
	if page, fields = e.open("https://example.com"+another, browser); strings.Contains(
		string(page.Body), "data-moving",
	) {
		t.Errorf("another picture: %s", page.Body)
	}
	if a := e.submit(fields, e.answerOf(fields.Get("key")), browser); a.Outcome != OutcomeSolved ||
		a.Pass.Allowance != 50 || a.Get("Location") != "https://example.com/page" {
		t.Errorf("%v %+v %s", a.Outcome, a.Pass, a.Get("Location"))
	}

	own := header("Sec-Fetch-Site", "same-origin")
	a := e.c.ChallengeForm(e.request("POST", "https://example.com/post", form("text", "x")))
	browser = keeping(&a)
	fields = still(&a)
	a = e.submit(fields, wrong(e.answerOf(fields.Get("key"))), browser, own)
	if strings.Contains(string(a.Body), "data-moving") {
		t.Errorf("a form after an error: %s", a.Body)
	}
	fields = still(&a)
	if a = e.submit(fields, e.answerOf(fields.Get("key")), browser, own); a.Outcome != OutcomeSolved {
		t.Errorf("a form: %d %v", a.Status, a.Outcome)
	}

	for _, l := range e.set.Languages() {
		_, fields := e.visit("https://example.com/page", header("Accept-Language", l.Tag))
		page, _ := e.visit(
			"https://example.com/page",
			header("Accept-Language", l.Tag),
			header("Accept-Encoding", "gzip"),
		)
		img := e.c.Image(e.request("GET", "https://example.com/captcha/image?key="+fields.Get("key")))
		if n := len(page.Body) + len(img.Body); img.Status != 200 || n > 30<<10 {
			t.Errorf("%s: page and picture have %d bytes", l.Tag, n)
		}
	}
}

// TestMovingForScripts: a script takes the moving pictures in turn; a carried form is kept through them.
func TestMovingForScripts(t *testing.T) {
	e := asking(t, "dynamic")
	read := func(a Response) *askBody {
		t.Helper()
		var c challengeJSON
		if err := json.Unmarshal(a.Body, &c); err != nil || c.Captcha.Ask == nil || c.Captcha.Ask.Step != "dynamic" ||
			c.Captcha.Status != "" {
			t.Fatalf("%v %s", err, a.Body)
		}
		return c.Captcha.Ask
	}
	ask := read(e.c.ChallengeJSON(e.request("GET", "https://example.com/api")))
	ask = read(e.answerWork(ask.Key, e.directions(ask.Key)))
	if a := e.answerWork(ask.Key, e.directions(ask.Key)); a.Outcome != OutcomeSolved {
		t.Errorf("%s", a.Body)
	}

	own := header("Sec-Fetch-Site", "same-origin")
	a := e.c.ChallengeForm(e.request("POST", "https://example.com/post", form("text", "x")))
	browser := keeping(&a)
	for range movingRounds {
		fields := fieldsOf(t, a.Body)
		a = e.submit(fields, e.directions(fields.Get("key")), browser, own)
	}
	if a.Outcome != OutcomeSolved {
		t.Errorf("a form: %d %v", a.Status, a.Outcome)
	}
}
