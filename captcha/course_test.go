package captcha

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"testing"
	"time"

	"antirobot/captcha/outcomes"
	"antirobot/identity"
	"antirobot/spravka"
)

const phoneAgent = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36"

// rowNamed returns a row of counts, zero if there is none.
func rowNamed(rows []outcomes.Row, name string) outcomes.Count {
	for _, r := range rows {
		if r.Name == name {
			return r.Count
		}
	}
	return outcomes.Count{}
}

// TestChallengesAreFollowed: a challenge that was loaded and solved, and whose solver came back, counts once in each
// step, by way and device; whoever only looks at the page has not loaded it.
func TestChallengesAreFollowed(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Steps.Top = "digits" })
	phone := header("User-Agent", phoneAgent)
	e.visit("https://example.com/") // at a desk
	_, fields := e.visit("https://example.com/", phone)
	for _, medium := range []string{"image", "image", "audio"} {
		q := e.request("GET", "https://example.com/captcha/"+medium+"?key="+fields.Get("key"), phone)
		if a := map[string]func(*Request) Response{"image": e.c.Image, "audio": e.c.Audio}[medium](q); a.Status != 200 {
			t.Fatalf("%s: %d", medium, a.Status)
		}
	}
	e.pass(8 * time.Second)
	a := e.submit(fields, e.answerOf(fields.Get("key")), phone)
	if a.Outcome != OutcomeSolved {
		t.Fatalf("outcome %d", a.Outcome)
	}
	stranger := a.Pass
	stranger.ID[15]++
	used := []spravka.Pass{stranger, a.Pass}
	if got := e.c.Challenges().Total; got.Loaded != 1 || got.CameBack != 0 {
		t.Errorf("before the return: %+v", got)
	}
	for range 3 {
		e.c.CameBack(used)
	}
	took := outcomes.Took(8 * time.Second)
	want := outcomes.Count{Shown: 1, Loaded: 1, Tried: 1, Solved: 1, Median: 8.7, P90: 8.7, Times: took, CameBack: 1}
	got := e.c.Challenges()
	if n := rowNamed(got.Devices, "phone"); !reflect.DeepEqual(n, want) {
		t.Errorf("phones: %+v", n)
	}
	if n := rowNamed(got.Devices, "desk"); !reflect.DeepEqual(n, outcomes.Count{Shown: 1, GaveUp: 1}) {
		t.Errorf("desks: %+v", n)
	}
	want.Shown, want.GaveUp = 2, 1
	if n := rowNamed(got.Ways, "page"); !reflect.DeepEqual(n, want) || !reflect.DeepEqual(got.Total, want) {
		t.Errorf("pages: %+v of %+v", n, got.Total)
	}
}

// TestLateReturnDoesNotCount: a pass that is used for the first time after more than an hour, when its challenge is no
// longer counted, does not count either.
func TestLateReturnDoesNotCount(t *testing.T) {
	e := newEnv(t, nil)
	a := e.solveIn(8 * time.Second)
	e.pass(time.Hour + time.Minute)
	e.c.CameBack([]spravka.Pass{a.Pass})
	if got := e.c.Challenges().Total; got.Solved != 1 || got.CameBack != 0 {
		t.Errorf("%+v", got)
	}
}

// TestLoadedByWay: the picture of a form, of a script's challenge and of an XML partner's user count in the way in
// which they were shown, the part of a silent check in its own.
func TestLoadedByWay(t *testing.T) {
	e := newEnv(t, nil)
	load := func(e *env, key string) {
		if a := e.c.Image(e.request("GET", "https://example.com/captcha/image?key="+key)); a.Status != 200 {
			t.Fatalf("status %d", a.Status)
		}
	}
	_, fields := e.challengeForm()
	load(e, fields.Get("key"))
	var c challengeJSON
	a := e.c.ChallengeJSON(e.request("GET", "https://example.com/api"))
	if err := json.Unmarshal(a.Body, &c); err != nil {
		t.Fatal(err)
	}
	load(e, c.Captcha.Key)
	x := e.c.ChallengeXML(e.request("GET", "https://example.com/search/xml"), false)
	load(e, between(t, string(x.Body), "<captcha-key>", "</captcha-key>"))
	got := e.c.Challenges()
	for _, way := range []string{"form", "script", "xml"} {
		if n := rowNamed(got.Ways, way); n.Shown != 1 || n.Loaded != 1 {
			t.Errorf("%s: %+v", way, n)
		}
	}
	e = asking(t, "silent")
	sent := e.c.Redirect(e.request("GET", "https://example.com/page"))
	page, _ := e.open(sent.Get("Location"), keeping(&sent))
	e.pageAnswer(&page, keeping(&sent))
	if n := rowNamed(e.c.Challenges().Ways, "silent"); n.Shown != 1 || n.Loaded != 1 {
		t.Errorf("silent: %+v", n)
	}
}

// TestAnswersCountWhereTheyWereAsked: the way belongs to the challenge, however its answer comes: no way has more
// answers than it was shown, or a solver of a page's digits by JSON would be one of "script", where nobody was asked.
// Forged keys count nowhere.
func TestAnswersCountWhereTheyWereAsked(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Steps.Top = "digits" })
	e.c.cfg.PassesPerDay = 1000
	script := header("Accept", "application/json")
	for range 9 {
		_, fields := e.visit("https://example.com/")
		e.pass(8 * time.Second)
		if a := e.submit(fields, e.answerOf(fields.Get("key")), script); a.Outcome != OutcomeSolved {
			t.Fatalf("outcome %d", a.Outcome)
		}
		e.submit(url.Values{"key": {"forged"}}, "1", script)
	}
	got := e.c.Challenges()
	if n := rowNamed(got.Ways, "page"); n.Shown != 9 || n.Tried != 9 || n.Solved != 9 {
		t.Errorf("pages: %+v", n)
	}
	e = asking(t, "silent") // in place of which digits are typed
	var c challengeJSON
	a := e.c.ChallengeJSON(e.request("GET", "https://example.com/api"))
	if err := json.Unmarshal(a.Body, &c); err != nil {
		t.Fatal(err)
	}
	e.pass(8 * time.Second)
	if a := e.submit(url.Values{"key": {c.Captcha.Key}}, e.answerOf(c.Captcha.Key), script); a.Outcome != OutcomeSolved {
		t.Fatalf("outcome %d", a.Outcome)
	}
	for _, r := range append(got.Ways, e.c.Challenges().Ways...) {
		if r.Solved > r.Tried || r.Tried > r.Shown {
			t.Errorf("%s: %+v", r.Name, r.Count)
		}
	}
}

// TestChallengesAreTold: challenges shown, tried, solved and given up are reported by way, language and network;
// machines are named by their network, people in it are not.
func TestChallengesAreTold(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Steps.Top = "digits" })
	e.c.cfg.PassesPerDay = 1000
	for n := range 30 { // a machine
		e.solveIn(0, from("198.51.100.7"))
		if n%3 == 0 { // a person, who makes mistakes and gives up
			_, fields := e.visit("https://example.com/", header("Accept-Language", "de"))
			e.pass(8 * time.Second)
			rep := e.answerOf(fields.Get("key"))
			if n%9 == 0 {
				rep = wrong(rep)
			}
			e.submit(fields, rep, header("Accept-Language", "de"))
			e.visit("https://example.com/", header("Accept-Language", "de"))
		}
	}
	got := e.c.Challenges()
	if fmt.Sprint(got.MachinesSolve) != "[198.51.100.0/24]" {
		t.Errorf("machines are seen in %v", got.MachinesSolve)
	}
	row := func(rows []outcomes.Row, name string) outcomes.Count {
		for _, r := range rows {
			if r.Name == name {
				return r.Count
			}
		}
		t.Fatalf("no row %s in %+v", name, rows)
		return outcomes.Count{}
	}
	person := row(got.Networks, "203.0.113.0/24")
	if person.Tried != 10 || person.Solved != 6 || person.GaveUp < 10 || person.Median != 8.7 || person.Quick != 0 {
		t.Errorf("the person: %+v", person)
	}
	if machine := row(got.Networks, "198.51.100.0/24"); machine.Tried != 30 || machine.Solved != 30 ||
		machine.Quick != 30 {
		t.Errorf("the machine: %+v", machine)
	}
	if de := row(got.Languages, "de"); de.Tried != 10 {
		t.Errorf("German: %+v", de)
	}
	if page := row(got.Ways, "page"); !reflect.DeepEqual(page, got.Total) || page.Tried != 40 {
		t.Errorf("pages: %+v of %+v", page, got.Total)
	}
	e.pass(3 * time.Hour)
	if got := e.c.Challenges(); got.Total.Shown != 0 || len(got.MachinesSolve) != 0 {
		t.Errorf("three hours later: %+v", got)
	}
}
