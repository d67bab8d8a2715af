package replay

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestWaiting: whatever comes late, records are taken out by their times, and those of one time as they came.
func TestWaiting(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := func(late int) {
		t.Helper()
		var w waiting
		var all, want []held // all that are in, and the order of those taken out
		out := 0
		for i := range 5000 {
			at := time.Unix(1e9+int64(i/3), 0)
			if late > 0 && random.IntN(late) == 0 {
				at = at.Add(-time.Duration(random.IntN(40)) * time.Second / 2)
			}
			x := held{at: momentOf(at), order: uint64(i), Record: &Record{At: at}}
			w.push(x)
			all = append(all, x)
			for w.len() > 0 && (random.IntN(3) == 0 || w.len() > 200 || i == 4999) {
				slices.SortFunc(all, func(a, b held) int {
					return cmp.Or(cmp.Compare(a.at.unix, b.at.unix), cmp.Compare(a.at.nano, b.at.nano), cmp.Compare(a.order, b.order))
				})
				want, all = append(want, all[0]), all[1:]
				if first := w.first().Record; first != want[out].Record || w.pop() != first {
					t.Fatalf("one in %d late: the %dth is another one", late, out)
				}
				out++
			}
		}
		if out != 5000 || w.first() != nil {
			t.Errorf("one in %d late: %d came out", late, out)
		}
	}
	f(0) // none
	f(100)
	f(1) // all
}
