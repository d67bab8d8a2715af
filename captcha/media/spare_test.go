package media

import "testing"

// TestSpares: a medium is shown to a few more, in its language and of its level alone, and gives way then; one in a
// language that has none takes the oldest place.
func TestSpares(t *testing.T) {
	s := &spares{most: spareSounds}
	all := func([]byte) bool { return true }
	s.add(1, "en", []byte{1, 2}, []byte("a"))
	if s.take(0, "en", all) != nil || s.take(1, "ru", all) != nil || s.find(1, "ru", []byte{1, 2}, true) != nil ||
		s.take(1, "en", func([]byte) bool { return false }) != nil {
		t.Error("found a medium that was not made, or that does not suit")
	}
	for i := range 2 * spareSounds {
		s.add(1, "en", []byte{byte(i), 3}, []byte("b"))
	}
	for range spareShows {
		if string(s.find(1, "en", []byte{1, 2}, true)) != "a" {
			t.Fatal("it is gone")
		}
	}
	for range 1000 {
		if string(s.take(1, "en", all)) == "\x01\x02" {
			t.Fatal("it is to be shown once more")
		}
	}
	s.add(1, "en", []byte{9, 9}, []byte("c"))
	s.add(1, "ru", []byte{1, 2}, []byte("d"))
	if s.find(1, "en", []byte{1, 2}, true) != nil || string(s.find(1, "en", []byte{9, 9}, true)) != "c" ||
		string(s.take(1, "ru", all)) != "\x01\x02" || len(s.all) != spareSounds {
		t.Errorf("they do not give way: %d are there", len(s.all))
	}
}
