package backlog

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"antirobot/store"
)

// batchesOfReleases are batches as each version of the format wrote keptBatch to disk. A new version adds a line.
var batchesOfReleases = []string{
	"01000000006b49d2001122334455667788000000000000012c020575006f6e650563ff74776f010003fedcba9876543210bc050123456789abcdef81010201ffff0300000000000000078080808004808080808020000100000000000000080501",
}

func keptBatch() (*store.Batch, time.Time) {
	return &store.Batch{
		Writer: 0x1122334455667788, Number: 300,
		Uniques: []store.Unique{
			{Counter: store.Counter{Prefix: "u\x00one", Type: 3, Shingle: 0xfedcba9876543210}, PairType: 700, Pair: 0x0123456789abcdef, Slot: 129},
		},
		Adds: []store.Delta{
			{Counter: store.Counter{Prefix: "c\xfftwo", Type: 65535, Shingle: 7}, Slot: 1 << 30, N: 1 << 40},
			{Counter: store.Counter{Prefix: "u\x00one", Type: 1, Shingle: 8}, Slot: 5, N: 1},
		},
	}, time.Unix(1_800_000_000, 0)
}

// TestBatchesOfReleases reads what each version of the format wrote, and holds what this one writes.
func TestBatchesOfReleases(t *testing.T) {
	want, at := keptBatch()
	for i, line := range batchesOfReleases {
		text, err := hex.DecodeString(line)
		must(t, err)
		got, err := decode(text)
		if err != nil || !reflect.DeepEqual(got, want) || writtenAt(text) != at.Unix() {
			t.Errorf("version %d: %+v, written at %d, %v", i+1, got, writtenAt(text), err)
		}
	}
	if now := hex.EncodeToString(encode(want, at)); now != batchesOfReleases[len(batchesOfReleases)-1] {
		t.Errorf("the format has changed: raise its version, read the earlier ones, and keep what it writes now:\n%s", now)
	}
}
