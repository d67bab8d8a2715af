package message

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"antirobot/store"
)

func TestModelSnapshot(t *testing.T) {
	backends(t, func(t *testing.T, reopen func() store.Store) {
		ctx := context.Background()
		s := openSystem(t, DefaultConfig(), reopen(), nil)
		d, _ := s.Domain("default", "")
		m, err := d.Model("model")
		if err != nil {
			t.Fatal(err)
		}
		train := func(from, to int) {
			for i := from; i < to; i++ {
				if err := s.Train(ctx, m, fmt.Sprintf("text number %d about things%d", i, i%7), i%3 != 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		train(0, 60)
		before := m.Size()
		probe, _ := m.score("things3 number 5")
		s.compact(ctx, 10)
		if m.since.Load() != 0 || m.Size() != before {
			t.Fatalf("after the snapshot: %d, %+v", m.since.Load(), m.Size())
		}
		train(60, 70)
		// A crash between the new head and the removal of the old texts: they are still there.
		kept := map[string][]byte{}
		if err := s.deps.Store.Scan(ctx, []byte(m.prefix+"text/"), func(k, v []byte, _ time.Duration) error {
			kept[string(k)] = slices.Clone(v)
			return nil
		}); err != nil || len(kept) != 10 {
			t.Fatal(err, len(kept))
		}
		s.compact(ctx, 10)
		for k, v := range kept {
			if err := s.deps.Store.Put(ctx, []byte(k), v, 0); err != nil {
				t.Fatal(err)
			}
		}
		want := m.Size()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openSystem(t, DefaultConfig(), reopen(), nil)
		defer s.Close()
		d, _ = s.Domain("default", "")
		if m, err = d.Model("model"); err != nil {
			t.Fatal(err)
		}
		if m.Size() != want {
			t.Errorf("after the crash %+v, want %+v: texts count twice", m.Size(), want)
		}
		s.compact(ctx, 0)
		n := 0
		_ = s.deps.Store.Scan(ctx, []byte(m.prefix+"text/"), func(_, _ []byte, _ time.Duration) error { n++; return nil })
		if n != 0 {
			t.Errorf("%d texts are left", n)
		}
		if score, by := m.score("things3 number 5"); by != byModel || (score > 0.5) != (probe > 0.5) {
			t.Errorf("after the restart %f by %s, before %f", score, by, probe)
		}
	})
}
