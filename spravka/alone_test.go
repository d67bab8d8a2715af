//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes ten times as long: megabytes are
// sealed, and a secret is stretched.

package spravka

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
)

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

// forgetful is a store whose user does not know the secret any more once it has written.
type forgetful struct {
	store.KV
	k *SharedRing
}

func (f forgetful) Swap(ctx context.Context, key, was, is []byte, ttl time.Duration) (bool, error) {
	f.k.Secret = nil
	return f.KV.Swap(ctx, key, was, is, ttl)
}

// TestSharedRingIsOpenedOnce: who made the ring of all gateways, or has read it, puts it back into a store that has
// lost it without stretching the secret again; what the secret does not open is never put there.
func TestSharedRingIsOpenedOnce(t *testing.T) {
	dir := t.TempDir()
	ring := func(kv store.KV, secret string) *SharedRing {
		return &SharedRing{
			KV: kv, Secret: []byte(secret), Copy: filepath.Join(dir, "keys.shared"),
			Seed: filepath.Join(dir, "keys.json"), Log: zerolog.Nop(),
		}
	}
	const secret = "correct horse battery staple"
	kept := store.NewMemory(nil)
	maker, reader := ring(kept, secret), ring(kept, secret)
	maker.KV = forgetful{kept, maker}
	made, err := maker.Load(true)
	if err != nil {
		t.Fatal(err)
	}
	read, err := reader.Load(false)
	if err != nil || read.Fingerprint() != made.Fingerprint() || read.Keys()[0] != made.Keys()[0] {
		t.Fatalf("made %v, read %v, %v", made.Keys(), read.Keys(), err)
	}
	for name, k := range map[string]*SharedRing{"the maker": maker, "a reader": reader} {
		k.KV, k.Secret = store.NewMemory(nil), nil // whoever stretches it fails
		if err := k.check(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if again, err := k.Load(false); err != nil || again.Fingerprint() != made.Fingerprint() {
			t.Errorf("%s has %v again, %v", name, again, err)
		}
	}
	lost := store.NewMemory(nil)
	if err := ring(lost, "another horse, battery staple").check(t.Context()); !errors.Is(err, errWrapSecret) {
		t.Errorf("a copy that the secret does not open: %v", err)
	}
	if _, err := lost.Get(t.Context(), nil, []byte(SharedRingKey)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it was put into the store: %v", err)
	}
}

// slow is a store each of whose answers takes most of the time that it may.
type slow struct{ store.KV }

func (s slow) Get(ctx context.Context, dst, key []byte) ([]byte, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.KV.Get(ctx, dst, key)
}

func (s slow) Swap(ctx context.Context, key, was, is []byte, ttl time.Duration) (bool, error) {
	if err := s.wait(ctx); err != nil {
		return false, err
	}
	return s.KV.Swap(ctx, key, was, is, ttl)
}

func (slow) wait(ctx context.Context) error {
	select {
	case <-time.After(sharedRingTimeout * 9 / 10):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestSharedRingOfASlowStore: what limits one answer of the store leaves no less time for the next, whatever went by
// between them, such as the stretching of the secret on a busy machine.
func TestSharedRingOfASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		kv := slow{store.NewMemory(nil)}
		load := func(kept string, create bool) *Ring {
			t.Helper()
			k := &SharedRing{
				KV: kv, Secret: []byte("correct horse battery staple"), Copy: filepath.Join(dir, kept),
				Log: zerolog.Nop(),
			}
			ring, err := k.Load(create)
			if err != nil {
				t.Fatal(err)
			}
			return ring
		}
		if made, read := load("made", true), load("read", false); made.Fingerprint() != read.Fingerprint() {
			t.Errorf("made %v, read %v", made.Keys(), read.Keys())
		}
	})
}
