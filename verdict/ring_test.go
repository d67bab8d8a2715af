package verdict

import "testing"

// TestRing: a ring keeps the last records, finds them by number, and has no more room than it was ever filled to, but for a chunk.
func TestRing(t *testing.T) {
	for _, most := range []int{1, ringChunk - 1, ringChunk, 3*ringChunk + 5} {
		var r ring[int]
		for n := 1; n <= 3*most; n++ {
			p, i := r.turn(most)
			if *p = n; r.at(i) != p || i != (n-1)%most {
				t.Fatalf("of %d: record %d is at %d", most, n, i)
			}
			kept, room, sum := min(n, most), 0, 0
			for p := range r.all {
				room++
				sum += *p
			}
			if want := kept * (2*n - kept + 1) / 2; sum != want || room < kept || room > min(most, n+ringChunk-1) {
				t.Fatalf("of %d after %d: the records' sum is %d, want %d, in room for %d", most, n, sum, want, room)
			}
		}
	}
}
