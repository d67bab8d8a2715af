package spravka

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestRotationKeepsTokens: rotation logs nobody out until a key is older than any token it may have sealed.
func TestRotationKeepsTokens(t *testing.T) {
	const keep = 30 * 24 * time.Hour
	r := newRing(t)
	token := r.Seal(nil, PurposePass, nil, []byte("x"), start.Add(365*24*time.Hour))
	at := start.Add(100 * 24 * time.Hour)
	r2, err := r.Rotate(at, keep)
	if err != nil {
		t.Fatal(err)
	}
	if !r.SealedByNewest(token) || r2.SealedByNewest(token) {
		t.Error("the new key does not seal")
	}
	if got := r2.Keys(); len(got) != 2 || !got[0].Seals || got[1].Seals || !got[0].Born.Equal(at) {
		t.Errorf("keys %+v", got)
	}
	if r.Fingerprint() == r2.Fingerprint() {
		t.Error("the fingerprint did not change")
	}
	// The first key sealed until the rotation: it stays for keep from then on, whatever its own age.
	r3, err := r2.Rotate(at.Add(keep), keep)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r3.Open(nil, PurposePass, nil, token, start); err != nil {
		t.Errorf("after exactly keep: %v", err)
	}
	r4, err := r2.Rotate(at.Add(keep+time.Second), keep)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r4.Open(nil, PurposePass, nil, token, start); !errors.Is(err, ErrSeal) {
		t.Errorf("after more than keep: %v", err)
	}
}

// TestLeakedKeysGo: two rotations that keep nothing leave no key of before, as docs/operating.md says.
func TestLeakedKeysGo(t *testing.T) {
	r := newRing(t)
	token := r.Seal(nil, PurposePass, nil, []byte("x"), start.Add(365*24*time.Hour))
	for i := range 2 {
		next, err := r.Rotate(start.Add(time.Duration(i+1)*time.Hour), 0)
		if err != nil {
			t.Fatal(err)
		}
		r = next
	}
	if _, err := r.Open(nil, PurposePass, nil, token, start.Add(3*time.Hour)); !errors.Is(err, ErrSeal) {
		t.Errorf("the leaked key opens: %v", err)
	}
}

func TestRotationInOneSecondAndWithoutEnd(t *testing.T) {
	r := newRing(t)
	for range maxKeys + 5 {
		next, err := r.Rotate(start, 30*24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if next.Keys()[0].ID == r.Keys()[0].ID {
			t.Fatal("the new key is not the newest")
		}
		if next.Keys()[1].ID != r.Keys()[0].ID {
			t.Fatal("the order changed")
		}
		r = next
	}
	if n := len(r.Keys()); n != maxKeys {
		t.Errorf("%d keys", n)
	}
}

func TestNewRingRefuses(t *testing.T) {
	a, b := MakeKey(start), MakeKey(start)
	sameID, sameSecret := b, b
	sameID.id = a.id
	sameSecret.secret = a.secret
	for name, keys := range map[string][]Key{
		"no keys": nil, "zero key": {{}}, "same id": {a, sameID}, "same secret": {a, sameSecret},
		"too many": func() (k []Key) {
			for range maxKeys + 1 {
				k = append(k, MakeKey(start))
			}
			return k
		}(),
	} {
		if r, err := NewRing(keys); err == nil {
			t.Errorf("%s: %v", name, r)
		}
	}
	for _, id := range []string{"", "abc", "ABCD", "a.bc", "abcdefghijklmnopq", "ключ"} {
		if _, err := newKey(id, start, make([]byte, 32)); err == nil {
			t.Errorf("id %q is accepted", id)
		}
	}
}

// TestExampleKeyIsKnown: pitfall 5, the key from the documentation must be recognised anywhere in the ring.
func TestExampleKeyIsKnown(t *testing.T) {
	if newRing(t).IsExample() {
		t.Error("a random key is taken for the example")
	}
	old := newRing(t, ExampleKey(), MakeKey(start))
	if !newRing(t, ExampleKey()).IsExample() || !old.IsExample() {
		t.Error("the example key is not found")
	}
	disguised := ExampleKey()
	disguised.id = "another0"
	if !newRing(t, disguised).IsExample() {
		t.Error("the example key under another id is not found")
	}
}

// TestSecretsAreNeverPrinted: pitfall 15.
func TestSecretsAreNeverPrinted(t *testing.T) {
	k := MakeKey(start)
	r := newRing(t, k)
	js, err := json.Marshal(struct {
		K Key
		R *Ring
		I []KeyInfo
	}{k, r, r.Keys()})
	if err != nil {
		t.Fatal(err)
	}
	printed := string(js)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		printed += fmt.Sprintf(verb+verb+verb+verb, k, &k, r, []Key{k})
	}
	for _, secret := range []string{
		string(k.secret[:]), fmt.Sprintf("%x", k.secret), fmt.Sprintf("%x", k.secret[:4]),
		strings.Trim(fmt.Sprintf("%d", k.secret[:8]), "[]"), base64.StdEncoding.EncodeToString(k.secret[:])[:12],
	} {
		if strings.Contains(printed, secret) {
			t.Errorf("a secret is printed in %s", printed)
		}
	}
}

func TestRingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	if _, err := LoadRing(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	r := newRing(t, MakeKey(start), MakeKey(start.Add(time.Hour)))
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := SaveRing(path, r); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	back, err := LoadRing(path)
	if err != nil {
		t.Fatal(err)
	}
	if back.Fingerprint() != r.Fingerprint() || !back.Keys()[0].Born.Equal(r.Keys()[0].Born) {
		t.Errorf("%v became %v", r.Keys(), back.Keys())
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o602, 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadRing(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if _, err := LoadRing(filepath.Dir(path)); err == nil {
		t.Error("a directory is loaded")
	}
	if err := SaveRing(filepath.Join(t.TempDir(), "no", "keys.json"), r); err == nil {
		t.Error("saved into no directory")
	}
}

func TestParseRingRefuses(t *testing.T) {
	good := string(marshalRing(newRing(t, ExampleKey())))
	secret := base64.StdEncoding.EncodeToString([]byte(exampleSecret))
	if _, err := parseRing([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string][2]string{
		"version":        {`"version": 1`, `"version": 2`},
		"unknown field":  {`"version": 1`, `"version": 1, "colour": "red"`},
		"short secret":   {secret, secret[:20]},
		"not base64":     {secret, "!" + secret[1:]},
		"bad id":         {`"example0"`, `"EXAMPLE"`},
		"bad time":       {`2024-01-01T`, `2024-13-01T`},
		"far future":     {`2024-01-01T`, `9999-01-01T`},
		"trailing":       {"}\n", "} x\n"},
		"second ring":    {"  ]\n}\n", "  ]\n}{}\n"},
		"no keys":        {good, `{"version": 1, "keys": []}`},
		"cut off":        {"  ]\n}\n", ""},
		"wrong type":     {`"version": 1`, `"version": "1"`},
		"not an object":  {good, `[]`},
		"empty":          {good, ``},
		"huge":           {good, strings.Repeat(" ", maxRingFile) + good},
		"secret in type": {`"` + secret + `"`, `["` + secret + `"]`},
	} {
		text := strings.Replace(good, edit[0], edit[1], 1)
		if text == good {
			t.Fatalf("%s: the edit changes nothing", name)
		}
		r, err := parseRing([]byte(text))
		if err == nil {
			t.Errorf("%s: accepted as %v", name, r)
		} else if strings.Contains(err.Error(), secret[:8]) {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
}

// TestFirstStartInParallel: several processes that start at once end up with the same keys.
func TestFirstStartInParallel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	var wg sync.WaitGroup
	prints := make([]uint64, 8)
	made := make([]bool, len(prints))
	for i := range prints {
		wg.Go(func() {
			r, m, err := LoadOrMakeRing(path, start)
			if err != nil {
				t.Error(err)
				return
			}
			prints[i], made[i] = r.Fingerprint(), m
		})
	}
	wg.Wait()
	n := 0
	for i := range prints {
		if prints[i] != prints[0] {
			t.Error("two rings")
		}
		if made[i] {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d made the file", n)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func FuzzRingFile(f *testing.F) {
	good := marshalRing(newRing(f, ExampleKey()))
	f.Add(good)
	f.Add([]byte(`{"version":1,"keys":[{"id":"aaaa","born":"2024-01-01T00:00:00Z","secret":""}]}`))
	f.Add([]byte(`{"version":1e3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRing(b)
		if err != nil {
			return
		}
		back, err := parseRing(marshalRing(r))
		if err != nil || back.Fingerprint() != r.Fingerprint() {
			t.Fatalf("%q does not come back: %v", b, err)
		}
	})
}
