package stream

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"antirobot/verdict"
)

// What earlier releases sent stands in testdata/batch-N, and in batch-N.json what is to be read from it. To keep what this release
// sends, when the format has changed: go test ./stream -run TestBatchesOfReleases -keep N
var keep = flag.String("keep", "", "write a batch of this release to testdata/batch-`N`")

// keptBatch is what a batch says.
type keptBatch struct {
	Publisher, Number uint64
	Base              int64
	Services          []uint32
	Events            []verdict.Event
}

// TestBatchesOfReleases reads a batch of each earlier release: every field of every event.
func TestBatchesOfReleases(t *testing.T) {
	if *keep != "" {
		keepBatch(t, "testdata/batch-"+*keep)
	}
	files, err := filepath.Glob("testdata/batch-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no batch of an earlier release: %v", err)
	}
	for _, file := range files {
		var want keptBatch
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		wire, err := os.ReadFile(strings.TrimSuffix(file, ".json"))
		if err != nil {
			t.Fatal(err)
		}
		h, rest, err := readHead(wire)
		if err != nil || h != (head{want.Publisher, want.Number, want.Base}) {
			t.Errorf("%s: %+v, %v", file, h, err)
		}
		for i := range want.Events {
			var got verdict.Event
			var service uint32
			service, rest, err = readEvent(&got, rest, h.base)
			if err != nil || service != want.Services[i] || !got.At.Equal(want.Events[i].At) {
				t.Errorf("%s, event %d: of service %d at %v, %v", file, i, service, got.At, err)
			}
			if got.At = want.Events[i].At; !reflect.DeepEqual(got, want.Events[i]) {
				t.Errorf("%s, event %d:\n got %+v\nwant %+v", file, i, got, want.Events[i])
			}
		}
		if len(rest) > 0 {
			t.Errorf("%s: %d bytes are left", file, len(rest))
		}
	}
}

func keepBatch(t *testing.T, name string) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 8))
	b := keptBatch{Publisher: 0x1122334455667788, Number: 300, Base: 1_700_000_000_000_000}
	wire := appendHead(nil, head{b.Publisher, b.Number, b.Base})
	for i := range uint32(4) {
		e := randomEvent(r)
		e.At = e.At.UTC()
		wire = appendEvent(wire, &e, 100+i, b.Base)
		b.Services, b.Events = append(b.Services, 100+i), append(b.Events, e)
	}
	text, err := json.MarshalIndent(b, "", " ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o755) //nolint:gosec // of the source tree
	}
	if err == nil {
		err = os.WriteFile(name, wire, 0o600)
	}
	if err == nil {
		err = os.WriteFile(name+".json", append(text, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
