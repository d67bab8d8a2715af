package stream

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// randomize sets every field of v to something that an event can be.
func randomize(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.UnixMicro(1_700_000_000_000_000 + r.Int64N(1e12))))
			return
		}
		for i := range v.NumField() {
			randomize(r, v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			randomize(r, v.Index(i))
		}
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Float32:
		v.SetFloat(float64(r.IntN(1000)) / 8)
	case reflect.Int32:
		v.SetInt(r.Int64N(1<<31) - 1)
	case reflect.Int64:
		v.SetInt(r.Int64N(1e9) * int64(time.Microsecond))
	default:
		v.SetUint(r.Uint64() >> (64 - v.Type().Bits()))
		if r.IntN(4) == 0 {
			v.SetUint(0)
		}
	}
}

// randomEvent is an event in which every field may be set: a new field that is not on the wire fails the test.
func randomEvent(r *rand.Rand) verdict.Event {
	var e verdict.Event
	randomize(r, reflect.ValueOf(&e).Elem())
	e.Verdict, e.Cause, e.Mode = verdict.Verdict(r.IntN(4)), verdict.Cause(r.IntN(verdict.Causes)), verdict.Mode(r.IntN(3))
	e.Type, e.Kind, e.N = verdict.Type(r.IntN(5)), verdict.EventKind(r.IntN(5)), uint8(1+r.IntN(6))
	e.Evidence.Probes &= request.ProbesAll
	e.Site, e.Referer = client.Site(r.IntN(4)), client.Referer(r.IntN(4))
	e.Subjects = [identity.MaxSubjects]identity.Subject{}
	for i := range e.N {
		e.Subjects[i] = randomSubject(r)
	}
	if e.Young = randomSubject(r); r.IntN(2) == 0 {
		e.Young = identity.Subject{}
	}
	e.Service, e.Again, e.Past, e.Turn = 0, false, false, [2]uint16{} // set by who reads it, or known to this process alone
	return e
}

func randomSubject(r *rand.Rand) (s identity.Subject) {
	s.Kind = identity.Kind(1 + r.IntN(int(identity.KindIP)))
	n := 16
	if r.IntN(2) == 0 {
		n = 8
	}
	for i := range n {
		s.ID[i] = byte(r.Uint32())
	}
	if r.IntN(3) == 0 {
		copy(s.ID[:12], []byte{10: 0xff, 11: 0xff})
	}
	return s
}

// TestEventsSurvive writes events of all kinds and reads them again.
func TestEventsSurvive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var wire []byte
	var want []verdict.Event
	base := time.Now().UnixMicro()
	for range 2000 {
		e := randomEvent(r)
		before := len(wire)
		wire = appendEvent(wire, &e, uint32(len(want)), base)
		if n := len(wire) - before; n > maxEvent {
			t.Fatalf("%d bytes", n)
		}
		want = append(want, e)
	}
	for i := range want {
		var got verdict.Event
		service, rest, err := readEvent(&got, wire, base)
		if err != nil || service != uint32(i) {
			t.Fatalf("event %d: service %d, %v", i, service, err)
		}
		if got != want[i] {
			t.Fatalf("event %d:\n got %+v\nwant %+v", i, got, want[i])
		}
		wire = rest
	}
	if len(wire) > 0 {
		t.Errorf("%d bytes are left", len(wire))
	}
}

// TestEventFormat: the bytes of an event are those of earlier builds, which may run beside this one.
func TestEventFormat(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var wire []byte
	for range 3000 {
		e := randomEvent(r)
		wire = appendEvent(wire, &e, 7, 1_700_000_000_000_000)
	}
	const want = "207c80119495e3fc14a6396006e6a885ed6ef4ce5a6e5ef315d2fc90e3f5685b"
	if got := fmt.Sprintf("%x", sha256.Sum256(wire)); got != want {
		t.Errorf("the format has changed: %s; raise batchVersion", got)
	}
}

// TestEventsOfALaterVersion reads an event with fields at its end that are not known here.
func TestEventsOfALaterVersion(t *testing.T) {
	e := typical(7)
	wire := appendEvent(nil, &e, 1, 0)
	wire = append(wire, "later"...)
	wire[0] += 5
	wire = appendEvent(wire, &e, 2, 0)
	var got verdict.Event
	_, rest, err := readEvent(&got, wire, 0)
	if err != nil || got != e {
		t.Fatalf("%+v, %v", got, err)
	}
	if name, _, err := readEvent(&got, rest, 0); err != nil || name != 2 {
		t.Errorf("the event after it: %d, %v", name, err)
	}
}

// TestTypesTravel: every type of an answer arrives as it was, over TCP and over QUIC.
func TestTypesTravel(t *testing.T) {
	for is := verdict.TypeUnknown; is <= verdict.TypeFeed; is++ {
		for _, quic := range []bool{false, true} {
			e := typical(7)
			e.Type, e.QUIC = is, quic
			var got verdict.Event
			if _, _, err := readEvent(&got, appendEvent(nil, &e, 1, 0), 0); err != nil || got != e {
				t.Errorf("%d: %+v, %v", is, got, err)
			}
		}
	}
}

// typical is the event of a page that a browser with a cookie has opened over HTTPS, of the i-th of many visitors.
func typical(i int) verdict.Event {
	h := func(salt uint64) uint64 {
		return request.Hash([]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(salt)})
	}
	e := verdict.Event{
		At: time.UnixMicro(1_800_000_000_000_000 + int64(i)*5), N: 2, Status: 200, Type: verdict.TypeHTML, Document: true, BytesOut: 43_210,
		Took: 83 * time.Millisecond, Method: 'G', Path: h(1), PathShape: h(2), Agent: h(3), Client: uint32(h(4)),
		Facts: client.Facts{
			Secure: true, Direct: true, HTTP2: true, Page: true, WantsHTML: true, Claim: client.Claim{Family: client.FamilyChrome, System: client.SystemWindows, Major: 126},
			Headers: 0x3ffff, Shape: h(5), Language: uint32(h(6)), JA4: h(7), Frames: h(8), Site: client.SiteSame, Referer: client.RefererSame,
			RefererPath: uint32(h(9)), Cookies: client.CookieAny | client.CookieOurs, IAge: 86400, Browser: uint32(h(10)), Depth: 3, Target: h(11),
			Number: 48211, Series: uint32(h(12)),
		},
	}
	e.Subjects[0] = identity.Subject{Kind: identity.KindI}
	for k := range e.Subjects[0].ID {
		e.Subjects[0].ID[k] = byte(h(uint64(20 + k)))
	}
	e.Subjects[1] = identity.Subject{Kind: identity.KindIP, ID: [16]byte{10: 0xff, 11: 0xff, 12: byte(i >> 16), 13: byte(i >> 8), 14: byte(i), 15: 7}}
	return e
}

// TestTypicalEventIsSmall holds the budget of bytes for an event in which nearly all is set.
func TestTypicalEventIsSmall(t *testing.T) {
	sum := 0
	for i := range 1000 {
		e := typical(i)
		sum += len(appendEvent(nil, &e, 0x12345678, e.At.UnixMicro()-3000))
	}
	t.Logf("%.1f bytes", float64(sum)/1000)
	if sum > 160*1000 {
		t.Errorf("an event takes %.1f bytes, budget 160", float64(sum)/1000)
	}
}

// TestPartitions checks that whatever is counted for an address is counted in one partition.
func TestPartitions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	used := map[int]bool{}
	for range 2000 {
		var a, b [16]byte
		for i := range a {
			a[i] = byte(r.Uint32())
		}
		if r.IntN(2) == 0 {
			copy(a[:12], []byte{10: 0xff, 11: 0xff})
		}
		b = a
		b[15] ^= byte(r.Uint32())
		var of, others [4]identity.Prefix
		n := identity.Prefixes(&of, a, 1)
		_ = identity.Prefixes(&others, b, 1)
		if of[n-1] == others[n-1] && Partition(a, 16) != Partition(b, 16) {
			t.Fatalf("%x and %x share the network %x and are in different partitions", a, b, of[n-1].ID)
		}
		used[Partition(a, 16)] = true
	}
	if len(used) != 16 {
		t.Errorf("only %d of 16 partitions are used", len(used))
	}
}

func FuzzReadEvent(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		e := randomEvent(r)
		f.Add(appendEvent(nil, &e, 7, 1000))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		var e verdict.Event
		name, rest, err := readEvent(&e, wire, 1000)
		if len(rest) > len(wire) {
			t.Fatal("it has grown")
		}
		if err != nil {
			return
		}
		if e.N == 0 || int(e.N) > len(e.Subjects) {
			t.Fatalf("%d subjects", e.N)
		}
		again := appendEvent(nil, &e, name, 1000)
		var other verdict.Event
		if _, _, err := readEvent(&other, again, 1000); err != nil {
			t.Fatalf("what was read can't be read again: %v", err)
		}
	})
}
