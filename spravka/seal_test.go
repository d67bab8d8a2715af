package spravka

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newRing(t testing.TB, keys ...Key) *Ring {
	t.Helper()
	if len(keys) == 0 {
		keys = []Key{MakeKey(start)}
	}
	r, err := NewRing(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var tokenAlphabet = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// TestSealProperties: a sealed payload opens with the same purpose and context and in no other way.
func TestSealProperties(t *testing.T) {
	ring, foreign := newRing(t), newRing(t)
	type opener func(r *Ring, dst []byte, p Purpose, context, token []byte, now time.Time) ([]byte, error)
	signed := opener((*Ring).Open)
	secret := opener((*Ring).OpenSecret)

	rapid.Check(t, func(rt *rapid.T) {
		p := Purpose(rapid.IntRange(0, int(numPurposes)-1).Draw(rt, "purpose"))
		payload := rapid.SliceOfN(rapid.Byte(), 0, p.maxPayload()).Draw(rt, "payload")
		context := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "context")
		life := time.Duration(rapid.IntRange(1, 1e6).Draw(rt, "seconds")) * time.Second
		seal, open, other := ring.Seal, signed, secret
		if rapid.Bool().Draw(rt, "secret") {
			seal, open, other = ring.SealSecret, secret, signed
		}
		token := seal([]byte("before"), p, context, payload, start.Add(life))
		token = bytes.TrimPrefix(token, []byte("before"))
		if !tokenAlphabet.Match(token) {
			rt.Fatalf("token %q", token)
		}
		got, err := open(ring, []byte("dst"), p, context, token, start.Add(life-time.Second))
		if err != nil || !bytes.Equal(got, append([]byte("dst"), payload...)) {
			rt.Fatalf("opens to %x, %v", got, err)
		}
		refuse := func(what string, got []byte, err, want error) {
			if !errors.Is(err, want) || string(got) != "dst" {
				rt.Fatalf("%s: opens to %q, %v; want %v", what, got, err, want)
			}
		}
		got, err = open(ring, []byte("dst"), p, context, token, start.Add(life))
		refuse("at its expiry", got, err, ErrExpired)
		got, err = open(ring, []byte("dst"), p, append(context, 'x'), token, start)
		refuse("another context", got, err, ErrSeal)
		got, err = open(foreign, []byte("dst"), p, context, token, start)
		refuse("another ring", got, err, ErrSeal)
		got, err = other(ring, []byte("dst"), p, context, token, start)
		refuse("the other kind of seal", got, err, ErrSeal)
		for q := range numPurposes {
			if q != p && len(token) <= q.maxToken() {
				got, err = open(ring, []byte("dst"), q, context, token, start)
				refuse("purpose "+q.String(), got, err, ErrSeal)
			}
		}
	})
}

// TestTokenHasOneSpelling: no altered token opens, not even one that decodes to the same bytes.
func TestTokenHasOneSpelling(t *testing.T) {
	ring := newRing(t)
	for n := range 6 { // every length of the last group
		token := ring.Seal(nil, PurposeCaptcha, nil, make([]byte, n), start.Add(time.Hour))
		try := func(b []byte) {
			t.Helper()
			if got, err := ring.Open(nil, PurposeCaptcha, nil, b, start); err == nil {
				t.Errorf("%q opens to %x although the token is %q", b, got, token)
			}
		}
		for i := range token {
			for _, c := range []byte("Aaz09_-.=\n |%") {
				if b := bytes.Clone(token); c != b[i] {
					b[i] = c
					try(b)
				}
			}
			try(append(bytes.Clone(token[:i]), token[i+1:]...))
		}
		last := bytes.Clone(token)
		for c := range 256 {
			if last[len(last)-1] = byte(c); !bytes.Equal(last, token) {
				try(last)
			}
		}
		for _, tail := range []string{"=", "==", "\n", "\r\n", "A", ".", " "} {
			try(append(bytes.Clone(token), tail...))
		}
	}
}

func TestOpenTellsErrorsApart(t *testing.T) {
	ring := newRing(t)
	token := string(ring.Seal(nil, PurposeRetpath, nil, []byte("x"), start.Add(time.Hour)))
	id, body, _ := strings.Cut(token, ".")
	for _, c := range []struct {
		name, token string
		want        error
	}{
		{"empty", "", ErrMalformed},
		{"no dot", id + body, ErrMalformed},
		{"no body", id + ".", ErrMalformed},
		{"no key", "." + body, ErrMalformed},
		{"two dots", id + "." + body + ".x", ErrMalformed},
		{"junk", "hello world", ErrMalformed},
		{"too long", id + "." + strings.Repeat("A", 1<<20), ErrMalformed},
		{"unknown key", "00000000." + body, ErrSeal},
		{"no mac", id + ".AAAA", ErrSeal},
		{"expired", token, ErrExpired},
	} {
		if _, err := ring.Open(nil, PurposeRetpath, nil, []byte(c.token), start.Add(time.Hour)); !errors.Is(
			err, c.want,
		) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestSecretIsSecret: an encrypted token reveals nothing of its payload, and two tokens of the same payload differ.
func TestSecretIsSecret(t *testing.T) {
	ring := newRing(t)
	payload := []byte("the answer is 314159, the answer is 314159")
	a := ring.SealSecret(nil, PurposeCaptcha, nil, payload, start.Add(time.Hour))
	b := ring.SealSecret(nil, PurposeCaptcha, nil, payload, start.Add(time.Hour))
	if bytes.Equal(a, b) {
		t.Error("two seals of one payload are equal")
	}
}

func TestContextIsDelimited(t *testing.T) {
	seen := map[string][]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"\x01a"}, {"\x02ab", "c"}} {
		k := string(AppendContext(nil, parts...))
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q have the same context", parts, other)
		}
		seen[k] = parts
	}
}

// sealedOnce is a pass that FuzzOpen's key sealed when this format was introduced. The fuzzer's processes must agree
// on the one token that opens.
const sealedOnce = "fuzzkey0.MTc5NTI0OTQyM3xBQUFBQUdta09GQUJBUUVDQXdBQUFBQUFBQUFBQUFBQUFBQUFBQUFBYWFRcVFBQUFBR1FBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBPT18ywlYXKT7N4TAql9SIbJoxdCHEZHRwPduaTjWZVMYP8E"

func FuzzOpen(f *testing.F) {
	k, err := newKey("fuzzkey0", start, bytes.Repeat([]byte("k"), 32))
	if err != nil {
		f.Fatal(err)
	}
	ring := newRing(f, k)
	if _, err := ring.OpenPass([]byte(sealedOnce), start); err != nil {
		f.Fatal(err) // also a promise: passes that are out there open after an update
	}
	f.Add([]byte(sealedOnce))
	f.Add(ring.SealSecret(nil, PurposeCaptcha, nil, []byte("x"), start.Add(time.Hour)))
	f.Add([]byte("fuzzkey0.AAAA"))
	f.Add([]byte("fuzzkey0.MTc3MjM2NjQwMHxBQUFBfA"))
	f.Fuzz(func(t *testing.T, token []byte) {
		for q := range numPurposes {
			_, _ = ring.OpenSecret(nil, q, nil, token, start)
			if _, err := ring.Open(nil, q, nil, token, start); err == nil && string(token) != sealedOnce {
				t.Fatalf("%q opens as %s", token, q)
			}
		}
		_, _ = ring.OpenPass(token, start)
	})
}

func BenchmarkSealPass(b *testing.B) {
	ring := newRing(b)
	p := Pass{ID: NewID(), Born: start.Unix(), Expires: start.Add(time.Hour).Unix(), Allowance: 100, Earned: true}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = ring.SealPass(dst[:0], &p)
	}
	b.ReportMetric(float64(len(dst)), "bytes/token")
}

func BenchmarkOpenPass(b *testing.B) {
	ring := newRing(b)
	p := Pass{ID: NewID(), Born: start.Unix(), Expires: start.Add(time.Hour).Unix(), Allowance: 100, Earned: true}
	token := ring.SealPass(nil, &p)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ring.OpenPass(token, start); err != nil {
			b.Fatal(err)
		}
	}
}
