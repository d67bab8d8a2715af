package processor

import (
	"testing"
	"time"

	"antirobot/verdict/browsers"
	"antirobot/verdict/client"
)

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
	var a browsers.Fields
	for n := range byte(40) {
		e := event(time.Unix(1.8e9, 0), 1)
		e.Subjects[e.N-1].ID = [16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: n, 15: 1}
		e.Claim, e.JA4, e.Misfits = client.Claim{Family: client.FamilyChrome, Major: 156}, 5, client.FalseHello
		a.See(e, false)
		if n == 0 {
			continue
		}
		c := evidence{e: e, lost: a.Lost(e.At.Unix())}
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
