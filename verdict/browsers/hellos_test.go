package browsers

import (
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// of is a page by the address of a network that is numbered.
func of(at time.Time, network byte, c client.Claim) *verdict.Event {
	e := &verdict.Event{At: at, N: 1}
	e.Page, e.Claim = true, c
	e.Subjects[0] = identity.Subject{Kind: identity.KindIP, ID: [16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: network, 15: 1}}
	return e
}

// answer says what is known.
func answer(unseen, known bool) string {
	switch {
	case !known:
		return "unknown"
	case unseen:
		return "unseen"
	}
	return "seen"
}

// TestHellosAreLearnt: what a browser's handshake looks like is known once twelve networks of established visitors have
// shown it; one network alone makes nothing usual; an unknown version is compared with all versions.
func TestHellosAreLearnt(t *testing.T) {
	var h Hellos
	at := time.Unix(1.8e9, 0)
	chrome := client.Claim{Family: client.FamilyChrome, Major: 156}
	show := func(network byte, c client.Claim, ja4, frames uint64) {
		e := of(at, network, c)
		e.JA4, e.Frames = ja4, frames
		h.See(e)
	}
	is := func(c client.Claim, ja4 uint64, want string) {
		t.Helper()
		e := of(at, 1, c)
		e.JA4 = ja4
		if got := answer(h.Unseen(e)); got != want {
			t.Errorf("%v with %d: %v, want %v", c, ja4, got, want)
		}
	}
	is(chrome, 1, "unknown")
	for n := range byte(40) {
		show(n, chrome, 1, 7)
		show(n, client.Claim{Family: client.FamilyFirefox, Major: 140}, 0, 0) // over plain HTTP
	}
	show(1, chrome, 2, 7) // one network only
	is(chrome, 1, "seen")
	is(chrome, 2, "unseen")
	is(chrome, 3, "unseen")
	is(chrome, 0, "unknown")
	is(client.Claim{Family: client.FamilyChrome, Major: 157}, 1, "seen")
	is(client.Claim{Family: client.FamilyChrome, Major: 157}, 3, "unseen")
	is(client.Claim{Family: client.FamilyFirefox, Major: 140}, 1, "unknown")
	is(client.Claim{Family: client.FamilyLibrary}, 3, "unknown")
	show(2, chrome, 2, 7)
	is(chrome, 2, "seen")
	for frames, want := range map[uint64]string{7: "seen", 8: "unseen"} {
		e := of(at, 1, chrome)
		e.Frames = frames
		if got := answer(h.UnseenFrames(e)); got != want {
			t.Errorf("frames %d are %s, want %s", frames, got, want)
		}
	}
	for n := range uint64(3 * helloKinds) { // a flood of other kinds is remembered in bounded memory
		at = at.Add(2 * time.Hour)
		show(3, chrome, 100+n, 7)
		show(4, chrome, 1, 7)
	}
	is(chrome, 1, "seen")
	for n := range uint64(1000) { // one client makes as many as it likes, while nobody else comes
		show(3, chrome, 10_000+n, 7)
		at = at.Add(time.Second)
	}
	is(chrome, 1, "seen")
}

// TestHellosInQUICAreLearntApart: a site that turns HTTP/3 on takes nobody's first handshake there for a strange one, and
// learns what browsers make there as it has learnt what they make over TCP.
func TestHellosInQUICAreLearntApart(t *testing.T) {
	var h Hellos
	e := of(time.Unix(1.8e9, 0), 1, client.Claim{Family: client.FamilyChrome, Major: 156})
	show := func(ja4 uint64, quic bool) {
		for n := range byte(40) {
			e.Subjects[0].ID[14] = n
			e.JA4, e.QUIC = ja4, quic
			h.See(e)
		}
	}
	is := func(ja4 uint64, quic bool, want string) {
		t.Helper()
		e.JA4, e.QUIC = ja4, quic
		if got := answer(h.Unseen(e)); got != want {
			t.Errorf("%d, QUIC %v: %v, want %v", ja4, quic, got, want)
		}
	}
	show(1, false)
	is(1, false, "seen")
	is(2, true, "unknown")
	show(2, true)
	is(2, true, "seen")
	is(1, true, "unseen")
	is(2, false, "unseen")
}
