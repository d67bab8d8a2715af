package admin

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"antirobot/config/pushed"
	"antirobot/store"
)

// pusher is a gateway that can run anything but what has a captcha.
type pusher struct{ pushed.Versions }

func newPusher() *pusher { return &pusher{pushed.Versions{KV: store.NewMemory(nil)}} }

func (p *pusher) Push(ctx context.Context, b *pushed.Bundle, v pushed.Version) (pushed.Version, error) {
	if strings.Contains(string(b.Config), "captcha") {
		return v, &RefusedConfig{Err: errors.Join(errors.New("captcha.ttl: is bad"), errors.New("captcha.size: is bad"))}
	}
	v, err := p.Add(ctx, b, v)
	return v, errors.Join(err, p.Report(ctx, &pushed.Node{Name: "www1/812", Version: v.Number, At: v.At}))
}

func (p *pusher) Rollback(ctx context.Context, to *uint64) (uint64, error) {
	x, err := p.Index(ctx)
	if err != nil {
		return 0, err
	}
	number := x.Before()
	if to != nil {
		number = *to
	}
	return number, p.Use(ctx, number)
}

func (p *pusher) Pushed(ctx context.Context) (s PushState, err error) {
	x, err := p.Index(ctx)
	if err != nil {
		return s, err
	}
	s = PushState{InForce: x.InForce, Runs: x.InForce, Versions: x.Versions}
	s.Gateways, err = p.Nodes(ctx)
	return s, err
}

// TestPush: what is refused has all its errors, what is no bundle is said to be none, and the versions tell who pushed them.
func TestPush(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{Pushes: newPusher()})
	post := func(path string, body any) (int, string) {
		t.Helper()
		in, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		status, text, _ := l.do("POST", path, string(in), "Authorization", "Bearer "+testToken)
		return status, text
	}
	bundle := func(text string) []byte {
		t.Helper()
		b, err := (&pushed.Bundle{Config: []byte(text)}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		body   any
		status int
		has    string
	}{
		{map[string]any{"bundle": bundle("lists: {}")}, 200, `"version":1,"by":`},
		{map[string]any{"bundle": bundle("captcha: {}")}, 422, `"errors":["captcha.ttl: is bad","captcha.size: is bad"]`},
		{map[string]any{"bundle": []byte("plain text")}, 400, "gzip"},
		{map[string]any{"bundle": bundle("lists: {}"), "note": strings.Repeat("x", maxNote+1)}, 400, `"field":"note"`},
		{map[string]any{"bundle": bundle("geo: {}"), "note": "places"}, 200, `"version":2,`},
	} {
		if status, text := post("/api/push", c.body); status != c.status || !strings.Contains(text, c.has) {
			t.Errorf("%d %s; want %d with %s", status, text, c.status, c.has)
		}
	}
	if status, text := post("/api/push/rollback", map[string]any{"to": 9}); status != 400 || !strings.Contains(text, `"field":"to"`) {
		t.Errorf("a rollback to what is not there: %d %s", status, text)
	}
	if status, text := post("/api/push/rollback", map[string]any{}); status != 200 || !strings.Contains(text, `{"in_force":1}`) {
		t.Errorf("a rollback: %d %s", status, text)
	}
}
