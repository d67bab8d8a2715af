package media

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func item1(n byte) *Item { return &Item{Nonce: [16]byte{n}, Digits: []byte{n}} }

func TestMakeKeepsWithinBound(t *testing.T) {
	m := New(Config{Places: 1, Cache: 2 * 10 * (1000 + itemCost)})
	get := func(it *Item, want string) {
		t.Helper()
		body, result, err := m.Make(it, 0, func() ([]byte, error) { return bytes.Repeat(it.Digits, 1000), nil })
		if err != nil || result != want || len(body) != 1000 || body[0] != it.Digits[0] {
			t.Fatalf("%s: %d bytes, %v", result, len(body), err)
		}
	}
	for n := range byte(10) {
		get(item1(n), "made")
	}
	get(item1(3), "again")
	other := item1(3)
	other.Nonce = [16]byte{99}
	get(other, "shared")
	other.Voice = "en"
	get(other, "made") // evicts another one
	if s := &m.made[Picture]; s.used > s.most || len(s.all) != 10 {
		t.Errorf("%d bytes in %d items", s.used, len(s.all))
	}
	_, _, err := m.Make(item1(98), 0, func() ([]byte, error) { return nil, errors.New("no") })
	if err == nil || len(m.made[Picture].all) != 10 {
		t.Errorf("a failure was kept: %v", err)
	}
}

// TestMakeOnce: concurrent callers wait for the rendering in progress.
func TestMakeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{Places: 1, Queue: 10, Wait: 2 * time.Second, Cache: 1 << 20})
		made := 0
		var all sync.WaitGroup
		make1 := func(lasts time.Duration) (err error) {
			_, _, err = m.Make(item1(1), 0, func() ([]byte, error) {
				time.Sleep(lasts)
				made++
				return []byte("x"), nil
			})
			return err
		}
		for range 20 {
			all.Go(func() {
				if err := make1(time.Second); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if made != 1 {
			t.Errorf("made %d times", made)
		}
		m = New(Config{Places: 1, Queue: 10, Wait: 2 * time.Second, Cache: 1 << 20})
		go func() { _ = make1(time.Minute) }()
		synctest.Wait()
		if err := make1(0); !errors.Is(err, ErrBusy) {
			t.Errorf("waited too long: %v", err)
		}
		time.Sleep(time.Minute)
	})
}

// TestDigitsAreLent: while pictures are crowded, challenges ask for digits whose picture is kept, in their level
// alone, and not for ever for the same.
func TestDigitsAreLent(t *testing.T) {
	m := New(Config{Places: 1, Cache: 1 << 20})
	english := func() string { return "en" }
	if _, _, err := m.Make(item1(7), 0, func() ([]byte, error) { return []byte("x"), nil }); err != nil {
		t.Fatal(err)
	}
	if m.Digits(0, english) != nil {
		t.Error("lent while there is no crowd")
	}
	m.gate.lines[Picture].until = time.Now().Add(time.Hour)
	if m.Digits(1, english) != nil || !bytes.Equal(m.Digits(0, english), []byte{7}) {
		t.Error("not the digits that are kept in this level")
	}
	m.gate.lines[Sound].until = time.Now().Add(time.Hour)
	if !bytes.Equal(m.Digits(0, english), []byte{7}) {
		t.Error("without a sound, a picture is better than nothing")
	}
	for range mostLent {
		it := item1(7)
		it.Nonce = [16]byte{99}
		_, _, _ = m.Make(it, 0, nil)
	}
	if m.Digits(0, english) != nil {
		t.Error("lent without end")
	}
}
