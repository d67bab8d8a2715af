package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"

	"antirobot/admin"
	"antirobot/config"
	"antirobot/config/pushed"
	"antirobot/store"
)

// away is a store that does not answer.
type away struct{ store.KV }

func (away) Get(context.Context, []byte, []byte) ([]byte, error) {
	return nil, errors.New("the store is away")
}

// TestPushedOutlastsTheStore: the copy of the last good version is taken where the store does not answer; a version that this
// gateway can't run leaves the one before it in use.
func TestPushedOutlastsTheStore(t *testing.T) {
	a, read := newReloadable(t)
	a.reread = func(values map[string]any) (*config.Config, error) {
		if values["captcha"] != nil {
			return nil, errors.New("no captcha here")
		}
		if values["lists"] != nil {
			return read(first + "lists: {block: [192.0.2.66]}\n"), nil
		}
		return read(first), nil
	}
	bg := context.Background()
	if err := a.openPush(); err != nil {
		t.Fatal(err)
	}
	if err := a.closePush(); err != nil { // looks are made here alone
		t.Fatal(err)
	}
	p := a.pushes
	plain := a.judge.Lists.Stats().Networks
	bundle := func(text string) *pushed.Bundle { return &pushed.Bundle{Config: []byte(text)} }
	runs := func(version uint64, more int) {
		t.Helper()
		if s := p.state(); s.Version != version || a.judge.Lists.Stats().Networks != plain+more {
			t.Fatalf("runs %+v with %d networks more, not %d with %d", s, a.judge.Lists.Stats().Networks-plain, version, more)
		}
	}
	if _, err := p.Push(bg, bundle("lists: {block: [192.0.2.66]}"), pushed.Version{}); err != nil {
		t.Fatal(err)
	}
	runs(1, 1)
	var refused *admin.RefusedConfig
	for _, bad := range []string{"captcha: {key_ttl: 1s}", "store: {url: x}", "listen: []"} {
		if _, err := p.Push(bg, bundle(bad), pushed.Version{}); !errors.As(err, &refused) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	runs(1, 1)
	// Another gateway could run it.
	if _, err := p.versions.Add(bg, bundle("captcha: {key_ttl: 1s}"), pushed.Version{}); err != nil {
		t.Fatal(err)
	}
	if err := p.look(bg); err != nil || !strings.Contains(p.state().Error, "no captcha here") {
		t.Errorf("%v; %+v", err, p.state())
	}
	runs(1, 1)
	if s, err := p.Pushed(bg); err != nil || s.InForce != 2 || s.Runs != 1 || len(s.Gateways) != 1 || s.Gateways[0].Error == "" {
		t.Errorf("%v; %+v", err, s)
	}
	// A start without the store.
	if err := a.usePushed(nil, true); err != nil {
		t.Fatal(err)
	}
	p.versions.KV = away{p.versions.KV}
	p.mu.Lock() // the journal may read the figures at any time
	p.node = pushed.Node{}
	p.mu.Unlock()
	runs(0, 0)
	if p.look(bg) == nil {
		t.Error("the store is away, and nobody notices")
	}
	p.lastGood()
	runs(1, 1)
}
