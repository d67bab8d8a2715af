package spravka

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawPass(rt *rapid.T) Pass {
	var p Pass
	copy(p.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "id"))
	p.Born = start.Unix() - rapid.Int64Range(0, 1e6).Draw(rt, "age")
	p.Expires = start.Unix() + rapid.Int64Range(1, 1e6).Draw(rt, "left")
	if p.Earned = rapid.Bool().Draw(rt, "earned"); p.Earned {
		p.Allowance = rapid.Uint32().Draw(rt, "allowance")
	}
	p.Scope = rapid.Uint64().Draw(rt, "scope")
	p.Partner = rapid.Uint64().Draw(rt, "partner")
	p.Net = rapid.Uint64().Draw(rt, "net")
	p.Agent = rapid.Uint64().Draw(rt, "agent")
	if rapid.Bool().Draw(rt, "keyed") {
		copy(p.Key[:], rapid.SliceOfN(rapid.ByteMin(1), 16, 16).Draw(rt, "key"))
		for i := range p.Places {
			p.Places[i] = rapid.Uint64().Draw(rt, "place")
		}
	}
	if rapid.Bool().Draw(rt, "shaped") {
		p.Shape = rapid.Uint64Min(1).Draw(rt, "shape")
	}
	return p
}

func TestPassComesBack(t *testing.T) {
	ring := newRing(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPass(rt)
		got, err := ring.OpenPass(ring.SealPass(nil, &p), start)
		if err != nil || got != p {
			rt.Fatalf("%+v became %+v, %v", p, got, err)
		}
		got, ok := UnpackPass(p.AppendPacked(nil))
		if !ok || got != p {
			rt.Fatalf("%+v unpacks to %+v", p, got)
		}
		if _, err := ring.OpenPass(ring.SealPass(nil, &p), time.Unix(p.Expires, 0)); !errors.Is(err, ErrExpired) {
			rt.Fatalf("at its expiry: %v", err)
		}
	})
}

// TestUnearnedPassPaysNothing: whatever the caller put into it.
func TestUnearnedPassPaysNothing(t *testing.T) {
	ring := newRing(t)
	p := Pass{ID: NewID(), Expires: start.Unix() + 60, Allowance: 100}
	got, err := ring.OpenPass(ring.SealPass(nil, &p), start)
	if err != nil || got.Allowance != 0 || got.Earned {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPassFitsACookie: a pass leaves room for a site's other cookies.
func TestPassFitsACookie(t *testing.T) {
	p := Pass{ID: NewID(), Born: start.Unix(), Expires: start.Unix() + 60, Allowance: 100, Earned: true}
	if n := len(newRing(t).SealPass(nil, &p)); n > 256 {
		t.Errorf("%d bytes", n)
	}
	p.Key = NewID()
	if n := len(newRing(t).SealPass(nil, &p)); n > 320 {
		t.Errorf("%d bytes with a key", n)
	}
}

// TestPassMoves: a pass with a key is good in the networks in which its browser has proved itself, the latest three
// beside its own; one without a key is good anywhere, as far as its seal is concerned.
func TestPassMoves(t *testing.T) {
	p := Pass{Net: 1}
	if p.MoveTo(2); p.Away(2) || p.Places != [3]uint64{} {
		t.Errorf("without a key: %+v", p)
	}
	p.Key = NewID()
	if p.Away(1) || p.Away(0) || !p.Away(2) {
		t.Error("a pass with a key is not bound to its own network")
	}
	for net := range uint64(4) {
		p.MoveTo(net + 2)
		p.MoveTo(net + 2) // where it is known: nothing changes
	}
	if p.Places != [3]uint64{5, 4, 3} || p.Net != 1 || p.Away(1) || p.Away(3) || !p.Away(2) {
		t.Errorf("after four moves: %+v", p)
	}
}

func TestScopeOf(t *testing.T) {
	same := func(a, b string, want bool) {
		t.Helper()
		if got := ScopeOf(a) == ScopeOf([]byte(b)); got != want {
			t.Errorf("%q and %q: the same scope is %v", a, b, got)
		}
	}
	same("example.com", "example.com", true)
	same(".Example.COM.", "example.com", true)
	same("example.com", "www.example.com", false)
	same("example.com", "example.org", false)
	same("", "example.com", false)
	if PartnerOf("a") == PartnerOf("b") || PartnerOf("") == 0 {
		t.Error("partners")
	}
}

// TestAllowanceShrinks: gradually, with what a household has earned.
func TestAllowanceShrinks(t *testing.T) {
	c := DefaultConfig()
	for _, f := range []struct {
		earned float64
		want   uint32
	}{{0, 100}, {-1, 100}, {0.5, 70}, {1, 50}, {2, 25}, {3, 12}, {4, 10}, {1e9, 10}} {
		if got := c.AllowanceOf(f.earned); got != f.want {
			t.Errorf("after %v: %d, want %d", f.earned, got, f.want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		c := Config{Lifetime: time.Hour, Allowance: rapid.Int64Range(1, 1e6).Draw(rt, "base")}
		if err := c.Validate(); err != nil {
			rt.Fatal(err)
		}
		n := rapid.Float64Range(0, 1e9).Draw(rt, "n")
		a, b := int64(c.AllowanceOf(n)), int64(c.AllowanceOf(n+1))
		if a < b || b < int64(c.Floor()) || a > c.Allowance {
			rt.Fatalf("after %v: %d, the next %d, of %+v", n, a, b, c)
		}
	})
}

func TestConfigValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{}.Validate()
	for _, key := range []string{"lifetime: ", "allowance: "} {
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(key)) {
			t.Errorf("nothing is said of %s in %v", key, err)
		}
	}
}

func TestSetCookie(t *testing.T) {
	f := func(c Cookie, want string) {
		t.Helper()
		if got := string(c.Append([]byte("x:"))); got != "x:"+want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	f(Cookie{"spravka", []byte("v"), "example.com", "/", 30 * 24 * time.Hour, true, "Lax"},
		"spravka=v; Path=/; Domain=example.com; Max-Age=2592000; Secure; HttpOnly; SameSite=Lax")
	f(Cookie{Name: "i", Path: "/a", MaxAge: -1, SameSite: "Strict"},
		"i=; Path=/a; Max-Age=0; HttpOnly; SameSite=Strict")
}

func FuzzPassPayload(f *testing.F) {
	p := Pass{ID: NewID(), Born: start.Unix(), Allowance: 100, Earned: true}
	f.Add(p.append(nil))
	f.Add(p.AppendPacked(nil))
	p.Key = NewID()
	f.Add(p.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parsePass(b); ok && !bytes.Equal(p.append(nil), b) {
			t.Fatalf("%x reads as %+v, which writes as %x", b, p, p.append(nil))
		}
		if p, ok := UnpackPass(b); ok && !bytes.Equal(p.AppendPacked(nil), b) {
			t.Fatalf("%x unpacks to %+v", b, p)
		}
	})
}
