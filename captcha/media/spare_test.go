package media

import "testing"

// TestSpares: a picture is shown to a few more and gives way to another then; what is there takes no room twice.
func TestSpares(t *testing.T) {
	var s spares
	s.add(1, []byte{1, 2}, []byte("a"))
	if s.take(0) != nil || s.find(0, []byte{1, 2}) != nil || s.find(1, []byte{2, 1}) != nil {
		t.Error("a picture is there that nobody made")
	}
	for i := range 2 * spareMost {
		s.add(1, []byte{byte(i), byte(i >> 8), 3}, []byte("b"))
	}
	if n := len(s.rows[1].by); n != spareMost {
		t.Errorf("%d are there", n)
	}
	for range spareShows {
		if string(s.find(1, []byte{1, 2})) != "a" {
			t.Fatal("it is gone")
		}
	}
	for range 1000 {
		if string(s.take(1)) == "\x01\x02" {
			t.Fatal("it is to be shown once more")
		}
	}
	for range spareMost {
		s.add(1, []byte{9, 9}, []byte("c"))
	}
	if s.find(1, []byte{1, 2}) != nil || string(s.find(1, []byte{9, 9})) != "c" || len(s.rows[1].by) != spareMost {
		t.Errorf("it does not give way: %d are there", len(s.rows[1].by))
	}
}

// TestSpareSounds: a sound is played to a few more, in its language and of its level alone, and gives way then; one in a language that has
// none takes the oldest place.
func TestSpareSounds(t *testing.T) {
	var s spareSounds
	any := func([]byte) bool { return true }
	s.add(1, "en", []byte{1, 2}, []byte("a"))
	if s.take(0, "en", any) != nil || s.take(1, "ru", any) != nil || s.find(1, "ru", []byte{1, 2}) != nil || s.take(1, "en", func([]byte) bool { return false }) != nil {
		t.Error("a sound is there that nobody made, or that does not suit")
	}
	for i := range 2 * spareSoundMost {
		s.add(1, "en", []byte{byte(i), 3}, []byte("b"))
	}
	if len(s.all) != spareSoundMost {
		t.Errorf("%d are there", len(s.all))
	}
	for range spareShows {
		if string(s.find(1, "en", []byte{1, 2})) != "a" {
			t.Fatal("it is gone")
		}
	}
	for range 1000 {
		if string(s.take(1, "en", any)) == "\x01\x02" {
			t.Fatal("it is to be played once more")
		}
	}
	s.add(1, "en", []byte{9, 9}, []byte("c"))
	s.add(1, "ru", []byte{1, 2}, []byte("d"))
	if s.find(1, "en", []byte{1, 2}) != nil || string(s.find(1, "en", []byte{9, 9})) != "c" || string(s.take(1, "ru", any)) != "\x01\x02" || len(s.all) != spareSoundMost {
		t.Errorf("they do not give way: %d are there", len(s.all))
	}
}
