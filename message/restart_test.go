package message

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
	"antirobot/store/pebblestore"
)

// backends opens stores that survive, for what must survive.
func backends(t *testing.T, run func(t *testing.T, reopen func() store.Store)) {
	t.Run("memory", func(t *testing.T) {
		st := store.NewMemory(nil)
		t.Cleanup(func() { _ = st.Close() })
		run(t, func() store.Store { return st })
	})
	t.Run("pebble", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "store")
		var st store.Store
		t.Cleanup(func() { _ = st.Close() })
		run(t, func() store.Store {
			if st != nil {
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if st, err = pebblestore.New(pebblestore.Deps{Dir: dir, Log: zerolog.Nop(), Now: time.Now}); err != nil {
				t.Fatal(err)
			}
			return st
		})
	})
}

func TestRestart(t *testing.T) {
	backends(t, func(t *testing.T, reopen func() store.Store) {
		s := openSystem(t, family(), reopen(), nil)
		setRules(t, s, "", "do messageLogPut() do userFrequencyCheck(storage=\"disk\", count=2) mark f if f stop as F stop as OK")
		for _, model := range []string{"model", "old"} {
			teach(t, s, "", model, "cheap pills for all of us", false)
			teach(t, s, "", model, "dear friend", true)
		}
		for range 2 {
			if got := say(t, s, "", `{"text":"cheap things","from":7}`); got != "OK" {
				t.Fatal(got)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = openSystem(t, family(), reopen(), nil)
		if got := say(t, s, "", `{"text":"cheap things","from":7}`); got != "F" {
			t.Errorf("rules or durable counters did not survive: %s", got)
		}
		for _, model := range []string{"model", "old"} {
			if got := marker(t, s, "", model, "cheap pills for all of us"); got != "bad" {
				t.Errorf("%s did not survive: %s", model, got)
			}
		}
		var ids []int64
		for _, e := range fetch(t, s, Range{}) {
			ids = append(ids, e.ID)
		}
		if !slices.Equal(ids, []int64{1, 2, 3}) {
			t.Errorf("ids %v", ids)
		}
		// Without Close, as after a crash: ids are not used again.
		s.cancel()
		s.work.Wait()
		for _, l := range s.logs {
			if err := l.flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		s = openSystem(t, family(), reopen(), nil)
		defer s.Close()
		say(t, s, "", `{"text":"cheap things","from":7}`)
		if e := fetch(t, s, Range{}); len(e) != 4 || e[3].ID <= 3 {
			t.Errorf("after a crash: %v", e)
		}
	})
}
