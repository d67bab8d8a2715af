package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sort"
	"strings"
	"testing"
	"time"

	"antirobot/alarm"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/processor"
	"antirobot/verdict/training"
)

// An operator's ban and list entries change what the gateway decides, at once and only as long as they stand.
func TestAPIChangesTheVerdict(t *testing.T) {
	g := startGateway(t)
	expect := func(from string, want verdict.Verdict) {
		t.Helper()
		if got := g.verdict(from); got != want {
			t.Errorf("%s is %v, want %v", from, got, want)
		}
	}
	var any map[string]any
	expect("203.0.113.7", verdict.Human)
	g.ok(&any, "POST", "/api/bans", `{"subject":"ip:203.0.113.7","ttl":"10m","reason":"x"}`)
	expect("203.0.113.7", verdict.Robot)
	expect("203.0.113.8", verdict.Human)
	g.ok(&any, "POST", "/api/lists/white", `{"entry":"203.0.113.0/29","ttl":"1h"}`)
	expect("203.0.113.7", verdict.Human)
	g.ok(&any, "POST", "/api/lists/block", `{"entry":"203.0.113.0/24","ttl":"1h","reason":"flood"}`)
	expect("203.0.113.7", verdict.Blocked) // the operator's own block stands first
	expect("203.0.113.200", verdict.Blocked)
	g.ok(&any, "DELETE", "/api/lists/block?entry=203.0.113.0/24", "")
	expect("203.0.113.200", verdict.Human)
	g.ok(&any, "DELETE", "/api/lists/white?entry=203.0.113.0%2F29", "")
	expect("203.0.113.7", verdict.Robot)
	g.ok(&any, "DELETE", "/api/bans?subject=ip:203.0.113.7", "")
	expect("203.0.113.7", verdict.Human)
	g.ok(&any, "POST", "/api/lists/ban", `{"entry":"2001:db8::/32"}`)
	expect("2001:db8::1", verdict.Robot)
	expect("192.0.2.1", verdict.Blocked) // from the file
	g.refused(404, "not_found", "", "DELETE", "/api/lists/block?entry=192.0.2.0/24", "")

	g.ok(&any, "POST", "/api/bans", `{"subject":"ip:198.51.100.1","ttl":"10m","service":"shop"}`)
	expect("198.51.100.1", verdict.Robot)
	g.refused(404, "not_found", "", "DELETE", "/api/bans?subject=ip:198.51.100.1", "")
	g.ok(&any, "DELETE", "/api/bans?subject=ip:198.51.100.1&service=shop", "")
	expect("198.51.100.1", verdict.Human)
}

// How often an entry decided is counted where decisions are recorded, and told with the entry and with its source.
func TestEntriesThatDecide(t *testing.T) {
	g := startGateway(t)
	var any map[string]any
	g.ok(&any, "POST", "/api/lists/block", `{"entry":"203.0.113.0/24","reason":"flood"}`)
	g.ok(&any, "POST", "/api/lists/white", `{"entry":"198.51.100.0/24"}`)
	for _, from := range []string{"203.0.113.7", "203.0.113.8", "198.51.100.1", "192.0.2.1", "192.0.2.1", "192.0.2.1", "100.64.0.1"} {
		g.verdict(from)
	}
	today := time.Now().UTC().Format(time.DateOnly)
	for list, want := range map[string]uint64{"block": 2, "white": 1, "abuse": 3} {
		var got listed[entry]
		g.ok(&got, "GET", "/api/lists/"+list, "")
		if e := got.Items[0]; e.Decided != want || e.DecidedOn > today || e.DecidedOn == "" || e.CountedSince.IsZero() || e.Silent {
			t.Errorf("%s: %+v, want %d decisions", list, e, want)
		}
		g.ok(&got, "GET", "/api/lists/"+list+"?silent=true", "")
		if len(got.Items) != 0 {
			t.Errorf("%s: %+v are said to be silent, and were watched for seconds", list, got.Items)
		}
	}
	var l listsView
	g.ok(&l, "GET", "/api/lists", "")
	if s := l.Sources[0]; s.Decided != 3 || s.Lately != 1 {
		t.Errorf("the source: %+v", s)
	}
	g.refused(404, "not_found", "", "GET", "/api/lists/grey", "")
	g.refused(400, "invalid_field", "silent", "GET", "/api/lists/block?silent=30d", "")
}

// TestAttackIsOneTruth: while the switch eases off the site is under attack, whoever asks and however.
func TestAttackIsOneTruth(t *testing.T) {
	over := time.Now().Add(30 * time.Second)
	l := start(t, DefaultConfig(), Deps{Attack: easing(over)})
	want := fmt.Sprintf(`{"under-attack":true,"until":%q,"share":0.5}`, over.UTC().Truncate(time.Second).Format(time.RFC3339))
	for _, method := range []string{"GET", "DELETE", "GET"} {
		if status, body, _ := l.do(method, "/api/attack", ""); status != 200 || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s, want %s", method, status, body, want)
		}
	}
}

// TestAttackTooLong: what the switch does not do is refused as the caller's mistake, before anything is said of the store.
func TestAttackTooLong(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{Attack: easing(time.Now())})
	status, body, _ := l.do("POST", "/api/attack", `{"for":"30d"}`)
	if status != 400 || !strings.Contains(body, `"invalid_field"`) || !strings.Contains(body, "1s..7d") {
		t.Errorf("%d %s", status, body)
	}
}

// TestMisspeltParameters: a parameter that is not known changes nothing, and the answer says which was probably meant.
func TestMisspeltParameters(t *testing.T) {
	g := startGateway(t)
	var any map[string]any
	g.ok(&any, "POST", "/api/bans", `{"subject":"ip:203.0.113.7","ttl":"1h","reason":"all"}`)
	g.ok(&any, "POST", "/api/bans", `{"subject":"ip:203.0.113.7","ttl":"1h","reason":"one","service":"shop"}`)
	g.refused(400, "unknown_field", "servce", "DELETE", "/api/bans?subject=ip:203.0.113.7&servce=shop", "")
	g.refused(400, "unknown_field", "subjct", "GET", "/api/bans?subjct=ip:203.0.113.7", "")
	g.refused(400, "unknown_field", "since", "GET", "/api/status?since=1h", "")
	g.refused(400, "unknown_field", "unlabeled", "GET", "/api/events?unlabeled=true", "")
	if _, body, _ := g.do("GET", "/api/bans?servce=shop", ""); !strings.Contains(body, "did you mean service?") {
		t.Error(body)
	}
	var got listed[bans.Story]
	g.ok(&got, "GET", "/api/bans?subject=ip:203.0.113.7", "")
	if len(got.Items) != 2 {
		t.Errorf("%+v: a ban was lifted that was not meant", got.Items)
	}
}

// easing is a switch that eases off until a time.
type easing time.Time

func (e easing) UnderAttack() verdict.AttackState {
	return verdict.AttackState{Until: time.Time(e).UTC(), Share: 0.5}
}

func (e easing) Attack(context.Context, time.Time) (time.Time, error) { return time.Time(e).UTC(), nil }

func TestRevocation(t *testing.T) {
	g := startGateway(t)
	id := [16]byte{0x9f, 15: 1}
	now := time.Now()
	if g.cacher.Revoked(id, now.Unix()) {
		t.Fatal("revoked already")
	}
	var any map[string]any
	g.ok(&any, "POST", "/api/revoke", fmt.Sprintf(`{"pass":"%X"}`, id))
	if !g.cacher.Revoked(id, now.Unix()) || g.cacher.Revoked([16]byte{1}, now.Unix()) {
		t.Error("revocation by ID")
	}
	g.ok(&any, "POST", "/api/revoke", fmt.Sprintf(`{"before":"%s"}`, now.Add(-time.Hour).Format(time.RFC3339)))
	if !g.cacher.Revoked([16]byte{1}, now.Add(-2*time.Hour).Unix()) || g.cacher.Revoked([16]byte{1}, now.Unix()) {
		t.Error("revocation by birth")
	}
	const campaign = "198.51.100.0/24 0b6c1f2d3e4a5968"
	g.ok(&any, "POST", "/api/revoke", `{"campaign":"`+campaign+`"}`)
	solvers := identity.NetKey(netip.MustParsePrefix("198.51.100.0/24"))
	if !g.cacher.RevokedCampaign(solvers, 0x0b6c1f2d3e4a5968, now.Unix()) || g.cacher.RevokedCampaign(solvers, 1, now.Unix()) {
		t.Error("revocation of a campaign")
	}
	g.ok(&any, "POST", "/api/revoke", `{"campaign":"198.51.100.0/24"}`)
	if !g.cacher.RevokedCampaign(solvers, 1, now.Unix()) {
		t.Error("revocation of a network's passes")
	}
	g.ok(&any, "POST", "/api/revoke", `{"campaign":"shape 0b6c1f2d3e4a5968"}`)
	if !g.cacher.RevokedCampaign(0, 0x0b6c1f2d3e4a5968, now.Unix()) || g.cacher.RevokedCampaign(0, 1, now.Unix()) {
		t.Error("revocation of what a shape earned")
	}
	const path = "/api/revoke"
	for _, bad := range []string{"shape", "shape 0000000000000000", "198.51.0.0/16", "198.51.100.7/24", "198.51.100.0/24 x", "198.51.100.0/24 0b6c", "198.51.100.0/24 0000000000000000"} {
		g.refused(400, "invalid_field", "campaign", "POST", path, `{"campaign":"`+bad+`"}`)
	}
	g.refused(400, "invalid_field", "pass", "POST", path, `{}`)
	g.refused(400, "invalid_field", "pass", "POST", path, `{"pass":"9f","before":"2026-01-02T00:00:00Z"}`)
	for _, id := range []string{"9f", strings.Repeat("g", 32), strings.Repeat("0", 33)} {
		g.refused(400, "invalid_field", "pass", "POST", path, `{"pass":"`+id+`"}`)
	}
	for _, at := range []string{"yesterday", "2026-01-02", "2026-13-02T00:00:00Z", now.Add(time.Hour).Format(time.RFC3339)} {
		g.refused(400, "invalid_field", "before", "POST", path, `{"before":"`+at+`"}`)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	g := startGateway(t)
	const ban = `{"subject":"ip:203.0.113.7","ttl":"10m"`
	for _, c := range []struct{ path, body, code, field string }{
		{"/api/bans", ban + `,"reson":"x"}`, "unknown_field", "reson"},
		{"/api/bans", ban, "invalid_json", ""},
		{"/api/bans", ban + `}{}`, "invalid_json", ""},
		{"/api/bans", `[]`, "invalid_field", ""},
		{"/api/bans", `{"subject":7}`, "invalid_field", "subject"},
		{"/api/bans", `{"ttl":"10m"}`, "invalid_field", "subject"},
		{"/api/bans", `{"subject":"203.0.113.7","ttl":"10m"}`, "invalid_field", "subject"},
		{"/api/bans", `{"subject":"ip:203.0.113.0/24","ttl":"10m"}`, "invalid_field", "subject"},
		{"/api/bans", `{"subject":"cat:7","ttl":"10m"}`, "invalid_field", "subject"},
		{"/api/bans", `{"subject":"ip:203.0.113.7"}`, "invalid_field", "ttl"},
		{"/api/bans", `{"subject":"ip:203.0.113.7","ttl":"100ms"}`, "invalid_field", "ttl"},
		{"/api/bans", `{"subject":"ip:203.0.113.7","ttl":"367d"}`, "invalid_field", "ttl"},
		{"/api/bans", `{"subject":"ip:203.0.113.7","ttl":"-1h"}`, "invalid_field", "ttl"},
		{"/api/bans", ban + `,"service":"none"}`, "invalid_field", "service"},
		{"/api/bans", ban + `,"reason":"` + strings.Repeat("x", 501) + `"}`, "invalid_field", "reason"},
		{"/api/bans", ban + `,"reason":"two\nlines"}`, "invalid_field", "reason"},
		{"/api/lists/block", `{}`, "invalid_field", "entry"},
		{"/api/lists/block", `{"entry":"everything"}`, "invalid_field", "entry"},
		{"/api/lists/block", `{"entry":"10.0.0.0/4"}`, "invalid_field", "entry"},
		{"/api/lists/block", `{"entry":"10.0.0.0/8","ttl":"x"}`, "invalid_field", "ttl"},
		{"/api/lists/block", `{"entry":"10.0.0.0/8","service":"none"}`, "invalid_field", "service"},
		{"/api/lists/block", `{"entry":"` + strings.Repeat("1", 5000) + `"}`, "invalid_field", "entry"},
	} {
		g.refused(400, c.code, c.field, "POST", c.path, c.body)
	}
	g.refused(400, "invalid_json", "", "POST", "/api/bans", "", "Content-Type", "application/json")
	g.refused(404, "not_found", "", "POST", "/api/lists/grey", `{"entry":"10.0.0.0/8"}`)
	g.refused(400, "invalid_field", "subject", "DELETE", "/api/bans", "")
	g.refused(400, "invalid_field", "entry", "DELETE", "/api/lists/ban", "")
	g.refused(400, "invalid_field", "entry", "DELETE", "/api/lists/ban?entry=x", "")
	g.refused(400, "invalid_field", "limit", "GET", "/api/bans?limit=0", "")
	g.refused(400, "invalid_field", "limit", "GET", "/api/bans?limit=1001", "")
	g.refused(400, "invalid_field", "after", "GET", "/api/bans?after=!", "")
	g.refused(400, "invalid_field", "request-id", "GET", "/api/decisions/none", "")
	g.refused(404, "not_found", "", "GET", "/api/decisions/"+request.NewID(time.Now()).String(), "")
	g.refused(400, "invalid_field", "subject", "GET", "/api/subjects/nobody", "")
	if n := len(g.cacher.Bans(verdict.BanFilter{})) + len(g.lists.List(cbb.Block)); n != 0 {
		t.Errorf("%d refused requests changed something", n)
	}
}

func TestBansArePaged(t *testing.T) {
	g := startGateway(t)
	var want []string
	for i := range 25 {
		subject := fmt.Sprintf("ip:203.0.113.%d", i+1)
		want = append(want, subject)
		var any map[string]any
		g.ok(&any, "POST", "/api/bans", `{"subject":"`+subject+`","ttl":"10m"}`)
	}
	sort.Strings(want)
	var got []string
	path := "/api/bans?limit=10"
	for pages := 0; path != ""; pages++ {
		if pages == 5 {
			t.Fatal("the pages do not end")
		}
		var a struct {
			Items []struct{ Subject string }
			Next  string
		}
		g.ok(&a, "GET", path, "")
		for _, b := range a.Items {
			got = append(got, b.Subject)
		}
		path = ""
		if a.Next != "" {
			path = "/api/bans?limit=10&after=" + a.Next
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v", got)
	}
	var one struct{ Items []any }
	g.ok(&one, "GET", "/api/bans?subject=ip:203.0.113.9", "")
	if len(one.Items) != 1 {
		t.Errorf("%d bans of one subject", len(one.Items))
	}
}

func TestSubjectOfAPass(t *testing.T) {
	id := [16]byte{1, 15: 2}
	l := start(t, DefaultConfig(), Deps{
		Passes:   pays{id: id},
		Sessions: knows(func(identity.Subject) (processor.SessionView, bool) { return processor.SessionView{Pages: 7}, true }),
	})
	if _, body, _ := l.do("GET", fmt.Sprintf("/api/subjects/spravka:%x", id), ""); !strings.HasPrefix(body,
		fmt.Sprintf(`{"subject":"spravka:%x","bans":[],"allowance":{"limit":100,"spent":7,"left":93},"session":{"`, id)) || !strings.Contains(body, `"pages":7`) {
		t.Errorf("got %s", body)
	}
	if _, body, _ := l.do("GET", "/api/subjects/ip%3A2001%3Adb8%3A%3A%2F64", ""); !strings.HasPrefix(body, `{"subject":"ip:2001:db8::/64","bans":[],"session"`) {
		t.Errorf("got %s", body)
	}
	if _, body, _ := l.do("GET", "/api/subjects/ip:127.0.0.1", ""); !strings.HasPrefix(body, `{"subject":"ip:127.0.0.1","bans":[],"exempt":true,"session"`) {
		t.Errorf("got %s", body)
	}
}

// TestSubjectNamed: a subject that a list names, or a network around it, is told with the entry.
func TestSubjectNamed(t *testing.T) {
	g := startGateway(t)
	var any map[string]any
	g.ok(&any, "POST", "/api/lists/block", `{"entry":"203.0.113.0/24","reason":"flood","service":"shop"}`)
	var is struct{ Entries []Naming }
	g.ok(&is, "GET", "/api/subjects/ip:203.0.113.7", "")
	if want := (Naming{List: "api", Flag: "block", Entry: "203.0.113.0/24", Service: "shop", Reason: "flood"}); len(is.Entries) != 1 || is.Entries[0] != want {
		t.Errorf("%+v, want %+v", is.Entries, want)
	}
}

// What the log says of changes names no token and no more than the subject.
func TestChangesAreLogged(t *testing.T) {
	g := startGateway(t)
	var any map[string]any
	g.ok(&any, "POST", "/api/bans", `{"subject":"L:alice","ttl":"10m","reason":"why"}`)
	log := g.log.String()
	if !strings.Contains(log, `"reason":"why"`) || !strings.Contains(log, `"subject":"L:#`) {
		t.Errorf("log: %s", log)
	}
	if strings.Contains(log, "alice") || strings.Contains(log, testToken) {
		t.Errorf("the log says too much: %s", log)
	}
}

// TestEvents: the log comes out whole or not at all, and a slip in the question is told.
func TestEvents(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	l.refused(501, "not_available", "", "GET", "/api/events", "")
	l.refused(401, "unauthorized", "", "GET", "/api/events", "", "-Authorization", "")

	var fail error
	l = start(t, DefaultConfig(), Deps{Training: exports(func(w io.Writer, unlabelled bool, since time.Time) error {
		for range 100_000 {
			fmt.Fprintf(w, "%v,%s\n", unlabelled, since.Format(time.RFC3339))
		}
		return fail
	})})
	l.refused(401, "unauthorized", "", "GET", "/api/events", "", "-Authorization", "")
	l.refused(405, "method_refused", "", "DELETE", "/api/events", "")
	l.refused(400, "invalid_field", "since", "GET", "/api/events?since=yesterday", "")
	l.refused(400, "invalid_field", "unlabelled", "GET", "/api/events?unlabelled=perhaps", "")
	status, body, head := l.do("GET", "/api/events?unlabelled=true&since=2026-01-02T03:04:05Z", "")
	if want := strings.Repeat("true,2026-01-02T03:04:05Z\n", 100_000); status != 200 || body != want {
		t.Errorf("%d, %d bytes, want %d", status, len(body), len(want))
	}
	if kind := head.Get("Content-Type"); kind != "text/csv; charset=utf-8" {
		t.Errorf("it is %q", kind)
	}
	fail = errors.New("the disk is gone")
	if status, body, _ := l.do("GET", "/api/events", ""); status != 500 || !strings.Contains(body, "the disk is gone") || strings.Contains(body, "false,") {
		t.Errorf("%d %.200s", status, body)
	}
}

// exports is a training log.
type exports func(w io.Writer, unlabelled bool, since time.Time) error

func (e exports) ExportTraining(w io.Writer, o training.ExportOptions, _ time.Time) (training.Exported, error) {
	return training.Exported{}, e(w, o.Unlabelled, o.Since)
}

// oneAlarm is a watch with an alarm, and a webhook that fails when it is tested.
type oneAlarm struct{}

func (oneAlarm) Active() []alarm.Alarm {
	return []alarm.Alarm{{Name: "store-away", Value: "no answer", Text: "the store fails: no answer", Action: "mend it", Since: time.Now()}}
}

func (oneAlarm) Hooks() []alarm.HookState { return []alarm.HookState{{Host: "hooks.example"}} }

func (oneAlarm) Test(context.Context, time.Time) []alarm.HookState {
	return []alarm.HookState{{Host: "hooks.example", Error: "hooks.example answers 503"}}
}
