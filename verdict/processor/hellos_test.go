package processor

import (
	"testing"
	"time"

	"antirobot/verdict/client"
)

// TestHellosAreLearnt: what a browser's handshake looks like is known once twelve networks of established visitors have
// shown it; one network alone makes nothing usual; an unknown version is compared with all versions.
func TestHellosAreLearnt(t *testing.T) {
	var h hellos
	at := time.Unix(1.8e9, 0)
	chrome := client.Claim{Family: client.FamilyChrome, Major: 156}
	show := func(network byte, c client.Claim, ja4, frames uint64) {
		e := event(at, 1)
		e.Subjects[e.N-1].ID = [16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: network, 15: 1}
		e.Claim, e.JA4, e.Frames = c, ja4, frames
		h.see(e)
	}
	is := func(c client.Claim, ja4 uint64, want tristate) {
		t.Helper()
		if got := h.unseen(c, overTCP, ja4); got != want {
			t.Errorf("%v with %d: %v, want %v", c, ja4, got, want)
		}
	}
	is(chrome, 1, unknown)
	for n := range byte(40) {
		show(n, chrome, 1, 7)
		show(n, client.Claim{Family: client.FamilyFirefox, Major: 140}, 0, 0) // over plain HTTP
	}
	show(1, chrome, 2, 7) // one network only
	is(chrome, 1, no)
	is(chrome, 2, yes)
	is(chrome, 3, yes)
	is(chrome, 0, unknown)
	is(client.Claim{Family: client.FamilyChrome, Major: 157}, 1, no)
	is(client.Claim{Family: client.FamilyChrome, Major: 157}, 3, yes)
	is(client.Claim{Family: client.FamilyFirefox, Major: 140}, 1, unknown)
	is(client.Claim{Family: client.FamilyLibrary}, 3, unknown)
	show(2, chrome, 2, 7)
	is(chrome, 2, no)
	if h.unseen(chrome, firstFrames, 7) != no || h.unseen(chrome, firstFrames, 8) != yes {
		t.Error("the frames are not learnt apart")
	}
	for n := range uint64(3 * helloKinds) { // a flood of other kinds is remembered in bounded memory
		at = at.Add(2 * time.Hour)
		show(3, chrome, 100+n, 7)
		show(4, chrome, 1, 7)
	}
	is(chrome, 1, no)
	for n := range uint64(1000) { // one client makes as many as it likes, while nobody else comes
		show(3, chrome, 10_000+n, 7)
		at = at.Add(time.Second)
	}
	is(chrome, 1, no)
}

// TestHellosInQUICAreLearntApart: a site that turns HTTP/3 on takes nobody's first handshake there for a strange one, and
// learns what browsers make there as it has learnt what they make over TCP.
func TestHellosInQUICAreLearntApart(t *testing.T) {
	var h hellos
	e := event(time.Unix(1.8e9, 0), 1)
	e.Claim = client.Claim{Family: client.FamilyChrome, Major: 156}
	show := func(ja4 uint64, quic bool) {
		for n := range byte(40) {
			e.Subjects[e.N-1].ID = [16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: n, 15: 1}
			e.JA4, e.QUIC = ja4, quic
			h.see(e)
		}
	}
	is := func(ja4 uint64, quic bool, want tristate) {
		t.Helper()
		e.JA4, e.QUIC = ja4, quic
		if got := h.unseen(e.Claim, carrier(&e.Facts), e.JA4); got != want {
			t.Errorf("%d, QUIC %v: %v, want %v", ja4, quic, got, want)
		}
	}
	show(1, false)
	is(1, false, no)
	is(2, true, unknown)
	show(2, true)
	is(2, true, no)
	is(1, true, yes)
	is(2, false, yes)
}

// TestAnswersBehind: how late a client answers is a factor of those that hold their connection themselves.
func TestAnswersBehind(t *testing.T) {
	c := &evidence{e: event(time.Unix(1.8e9, 0), 1)}
	if got := answersBehind(c); got == got {
		t.Errorf("%v, though nothing is known", got)
	}
	c.e.Lag = client.LagOf(200 * time.Millisecond)
	if got := answersBehind(c); got < 190 || got > 210 {
		t.Errorf("%v ms, want 200", got)
	}
}

// TestHelloGroups: the company of a handshake is its addresses and User-Agents, and browsers whose handshakes something in
// front of the gateway makes are not blamed.
func TestHelloGroups(t *testing.T) {
	e := event(time.Unix(1.8e9, 0), 1)
	if n := groupsOf(e).n; n == 0 {
		t.Fatal("no groups")
	} else if e.JA4 = 5; groupsOf(e).n != n+2 {
		t.Errorf("%d groups without a handshake, %d with one", n, groupsOf(e).n)
	}
	e.Agent = 77
	if memberOf(groupKey{role: roleHelloBy}, e, 5) != 77 || memberOf(groupKey{role: roleHello}, e, 5) != 5 {
		t.Error("other members")
	}
	var a arrivals
	for n := range byte(40) {
		e := event(time.Unix(1.8e9, 0), 1)
		e.Subjects[e.N-1].ID = [16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: n, 15: 1}
		e.Claim, e.JA4, e.Misfits = client.Claim{Family: client.FamilyChrome, Major: 156}, 5, client.FalseHello
		a.see(e, false)
		if n == 0 {
			continue
		}
		c := evidence{e: e, lost: a.lost(e.At.Unix())}
		if f := greeted(helloFalse)(&c); f == f {
			t.Fatalf("after %d networks with it alone: %v", n, f)
		}
	}
	e = event(time.Unix(1.8e9, 0), 1)
	e.Claim, e.JA4, e.Misfits = client.Claim{Family: client.FamilyChrome, Major: 156}, 5, client.FalseHello
	if greeted(helloFalse)(&evidence{e: e}) != 1 {
		t.Error("a false handshake is no factor")
	}
}
