package pushed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/store"
)

var bg = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestPack: what a file names goes along, what is not below it does not, and the names lead to where it was unpacked.
func TestPack(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(other, "secret"), "a secret")
	write(t, filepath.Join(dir, "lists", "bad.txt"), "203.0.113.7\n")
	write(t, filepath.Join(dir, "pages", "en", "page.html"), "<p>")
	write(t, filepath.Join(dir, "unnamed"), "stays")
	write(t, filepath.Join(dir, "antirobot.yaml"), `
captcha: {templates: ./pages}
lists: {lists: [{name: bad, file: lists/bad.txt}, {name: own, file: `+other+`/secret}, {name: up, file: ../secret}]}
defaults: {mode: observe}
`)
	b, err := Pack(filepath.Join(dir, "antirobot.yaml"))
	must(t, err)
	text, err := b.Encode()
	must(t, err)
	b, err = Decode(text)
	must(t, err)
	if names := slices.Sorted(maps.Keys(b.Files)); !slices.Equal(names, []string{"lists/bad.txt", "pages/en/page.html"}) {
		t.Errorf("packed %q", names)
	}
	to := t.TempDir()
	values, err := b.Unpack(to)
	must(t, err)
	want := map[string]any{
		"captcha":  map[string]any{"templates": filepath.Join(to, "pages")},
		"defaults": map[string]any{"mode": "observe"},
		"lists": map[string]any{"lists": []any{
			map[string]any{"name": "bad", "file": filepath.Join(to, "lists/bad.txt")},
			map[string]any{"name": "own", "file": other + "/secret"},
			map[string]any{"name": "up", "file": "../secret"},
		}},
	}
	if got, want := fmt.Sprint(values), fmt.Sprint(want); got != want {
		t.Errorf("unpacked\n%s, want\n%s", got, want)
	}
	if got, err := os.ReadFile(filepath.Join(to, "lists/bad.txt")); err != nil || string(got) != "203.0.113.7\n" {
		t.Errorf("the list is %q, %v", got, err)
	}
	if _, err := (&Bundle{Config: []byte("a: b"), Files: map[string][]byte{"../x": nil}}).Unpack(to); err == nil {
		t.Error("a file was unpacked outside the directory")
	}
	write(t, filepath.Join(dir, "empty.yaml"), "# nothing\n")
	if _, err := Pack(filepath.Join(dir, "empty.yaml")); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty file: %v", err)
	}
}

func bundle(text string) *Bundle { return &Bundle{Config: []byte(text)} }

// TestVersions: pushes number, keep and drop versions; a rollback chooses among those that are kept.
func TestVersions(t *testing.T) {
	kv := store.NewMemory(nil)
	s := &Versions{KV: kv, Secret: []byte("shared")}
	x, err := s.Index(bg)
	must(t, err)
	if x.InForce != 0 || x.Before() != 0 {
		t.Errorf("before the first: %+v", x)
	}
	for i := range Kept + 2 {
		v, err := s.Add(bg, bundle(fmt.Sprintf("n: %d", i+1)), Version{By: "anna"})
		must(t, err)
		if v.Number != uint64(i+1) || v.Bytes == 0 { //nolint:gosec // not negative
			t.Errorf("push %d is %+v", i+1, v)
		}
	}
	x, err = s.Index(bg)
	must(t, err)
	if len(x.Versions) != Kept || x.InForce != Kept+2 || x.Before() != Kept+1 {
		t.Errorf("index: %+v", x)
	}
	must(t, s.Use(bg, x.Before()))
	x, err = s.Index(bg)
	must(t, err)
	b, err := s.Bundle(bg, x.InForce)
	must(t, err)
	if string(b.Config) != fmt.Sprintf("n: %d", Kept+1) {
		t.Errorf("in force: %s", b.Config)
	}
	if err := s.Use(bg, 1); !errors.Is(err, ErrNoVersion) {
		t.Errorf("a version that was dropped: %v", err)
	}
	n := 0
	must(t, kv.Scan(bg, []byte("push/bundle/"), func([]byte, []byte, time.Duration) error { n++; return nil }))
	if n != Kept {
		t.Errorf("%d bundles are kept", n)
	}
	v, err := s.Add(bg, bundle("a: b"), Version{})
	must(t, err)
	if v.Number != Kept+3 {
		t.Errorf("after a rollback comes %d", v.Number)
	}
}

// TestForged: who can write to the store and lacks the secret gives nobody a configuration; nor can values be exchanged.
func TestForged(t *testing.T) {
	kv := store.NewMemory(nil)
	s, thief := &Versions{KV: kv, Secret: []byte("shared")}, &Versions{KV: kv, Secret: []byte("guessed")}
	one, err := s.Add(bg, bundle("n: 1"), Version{})
	must(t, err)
	two, err := s.Add(bg, bundle("n: 2"), Version{})
	must(t, err)
	if _, err := thief.Add(bg, bundle("n: 3"), Version{}); !errors.Is(err, errForged) {
		t.Errorf("another secret: %v", err)
	}
	old, err := kv.Get(bg, nil, bundleKey(&one))
	must(t, err)
	must(t, kv.Put(bg, bundleKey(&two), old, 0))
	if _, err := s.Bundle(bg, 2); !errors.Is(err, errForged) {
		t.Errorf("the first version in the place of the second: %v", err)
	}
	must(t, kv.Put(bg, indexKey, []byte(`{"in_force":1}`), 0))
	if _, err := s.Index(bg); !errors.Is(err, errForged) {
		t.Errorf("an index without a code: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	text, err := (&Bundle{Config: []byte("a: b.txt"), Files: map[string][]byte{"b.txt": []byte("c"), "d/e": nil}}).Encode()
	must(f, err)
	f.Add(text)
	f.Add([]byte("no gzip"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Decode(data)
		if err != nil {
			return
		}
		again, err := b.Encode()
		must(t, err)
		c, err := Decode(again)
		must(t, err)
		if string(b.Config) != string(c.Config) || len(b.Files) != len(c.Files) {
			t.Fatalf("%+v became %+v", b, c)
		}
	})
}
