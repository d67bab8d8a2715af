//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes ten times as long: megabytes are sealed, and a
// secret is stretched.

package spravka

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// TestMaxPayloadOpens: the bound on tokens leaves room for the longest payload, and is enforced.
func TestMaxPayloadOpens(t *testing.T) {
	ring := newRing(t, func() Key {
		k, err := newKey("abcdefgh01234567", start, bytes.Repeat([]byte("k"), 32))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}())
	for p := range numPurposes {
		token := ring.SealSecret(nil, p, nil, make([]byte, p.maxPayload()), start.Add(time.Hour))
		if _, err := ring.OpenSecret(nil, p, nil, token, start); err != nil {
			t.Errorf("%s: %v (%d bytes, bound %d)", p, err, len(token), p.maxToken())
		}
		token = ring.SealSecret(nil, p, nil, make([]byte, p.maxPayload()*2), start.Add(time.Hour))
		if _, err := ring.OpenSecret(nil, p, nil, token, start); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: twice the longest payload: %v", p, err)
		}
	}
}

func TestWrap(t *testing.T) {
	r := newRing(t, MakeKey(start), MakeKey(start.Add(time.Hour)))
	secret := []byte("correct horse battery staple")
	blob, err := Wrap(r, secret)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(blob, []byte(r.keys[0].id)) {
		t.Error("the blob shows the ring")
	}
	back, err := Unwrap(blob, secret)
	if err != nil || back.Fingerprint() != r.Fingerprint() {
		t.Fatalf("unwraps to %v, %v", back, err)
	}
	if _, err := Unwrap(blob, []byte("correct horse battery stapler")); !errors.Is(err, errWrapSecret) {
		t.Errorf("wrong secret: %v", err)
	}
	blob[len(blob)-9] ^= 1
	if _, err := Unwrap(blob, secret); err == nil {
		t.Error("an altered blob unwraps")
	}
	for _, b := range []string{"", "x", wrapPrefix, wrapPrefix + "AAAA", wrapPrefix + "!!!!"} {
		if _, err := Unwrap([]byte(b), secret); err == nil {
			t.Errorf("%q unwraps", b)
		}
	}
	if _, err := Wrap(r, []byte("short")); err == nil {
		t.Error("a short secret is accepted")
	}
}

// TestWrappedOnce: rings already in shared stores still open after an update.
func TestWrappedOnce(t *testing.T) {
	const blob = "antirobot-ring.v1.acqpCzS5-f87f2Hbhkr1gHvK594q3m74BG-xDj71-rqZGj3zV6BYJcQdR6jKga9zrnu7s3isbDT8Cqd2xa" +
		"V3wgEUOIEeeKPAiyya57-fPUR2RhbzIy_FdsxFH7jslBgGnSWyDCk1fYZ16uQXsf9F3gpsu2K8VK7wemJ5s9tHGog4PNL8a17TyNM32XpzhagIGYaSlx-dvz7bIciak7uUwk6ZxlDOrddPcwJKmgUX2RveJSjzRDqak34VirHDkKVkgV24tuDhSGb3CcvS9wP2AhJ7jP2LGjVMwA"
	r, err := Unwrap([]byte(blob), []byte("correct horse battery staple"))
	if err != nil || !r.IsExample() {
		t.Errorf("%v, %v", r, err)
	}
}
