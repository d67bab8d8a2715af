package message

import (
	"fmt"
	"testing"

	"antirobot/message/learn"
	"antirobot/store"
)

// TestModelForgets: of more texts than a model keeps, the newest of each kind are learnt again, and the others leave the
// store. Good texts never push out bad ones.
func TestModelForgets(t *testing.T) {
	st := store.NewMemory(nil)
	defer st.Close()
	s := openSystem(t, DefaultConfig(), st, nil)
	defer s.Close()
	m, err := root(t, s, "").Model("model")
	if err != nil {
		t.Fatal(err)
	}
	for i := range learn.LeastBad {
		teach(t, s, "", "model", fmt.Sprintf("cheap pills for all, lot %d", i), false)
	}
	const good = keepTexts + 100
	for i := range good {
		r := trainRecord{Key: fmt.Sprintf("%032x", i), Text: "hello", Good: true}
		if err := st.Put(t.Context(), m.textKey(r.Key), r.value(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := m.records(t.Context())
	if size := m.Size(); err != nil || len(left) != keepTexts+learn.LeastBad || size.Good != keepTexts ||
		size.Bad != learn.LeastBad {
		t.Errorf("%d texts are left, %+v, %v", len(left), size, err)
	}
}
