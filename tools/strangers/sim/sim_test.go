package sim

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

func play(t *testing.T, seed uint64) *Log {
	t.Helper()
	l, err := Play("jobs", seed)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var one = sync.OnceValues(func() (*Log, error) { return Play("jobs", 1) })

func first(t *testing.T) *Log {
	t.Helper()
	l, err := one()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSameSeedSameTraffic(t *testing.T) {
	if !slices.Equal(first(t).Events, play(t, 1).Events) {
		t.Error("two runs with one seed differ")
	}
	if slices.Equal(first(t).Events, play(t, 2).Events) {
		t.Error("the seed changes nothing")
	}
}

// TestLogIsThatOfTheFigures: figures that were published of these logs can be repeated. Other processors round otherwise
// (they multiply and add at once), and a draw that falls to the other side changes all that follow.
func TestLogIsThatOfTheFigures(t *testing.T) {
	dir := t.TempDir()
	if err := first(t).Write(dir); err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	if faults := Check(&found, dir); faults != 0 {
		t.Errorf("%d kinds of faults:\n%s", faults, found.String())
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the figures are of amd64")
	}
	f, err := os.Open(filepath.Join(dir, "jobs.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, z); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sum.Sum(nil)); got != "03d2d84873e044388df030938e32ff9bd92306d676fa58c28536d1250963505f" {
		t.Errorf("the log of jobs, seed 1, is another one: %s. Figures of it in docs/measurements.md can't be repeated: undo what changed it", got)
	}
}

func TestCheckFindsFaults(t *testing.T) {
	if n := Check(io.Discard, t.TempDir()); n != -1 {
		t.Errorf("no logs, and %d", n)
	}
	l := *first(t)
	l.Events = slices.Clone(l.Events)
	for i := range l.Events {
		if e := &l.Events[i]; e.Status == 304 {
			e.Bytes = 12
		}
	}
	dir := t.TempDir()
	if err := l.Write(dir); err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	if n := Check(&found, dir); n != 1 || !strings.Contains(found.String(), "FAULT body with 304 or 204") {
		t.Errorf("%d kinds of faults:\n%s", n, found.String())
	}
}

func TestFreshPartsAreNotAskedForAgain(t *testing.T) {
	b := builds()[0]
	s := b.site(1)
	l := newLog()
	a := newAgent(s, l, Subject{}, "test", 0, 1)
	a.warm, a.C = 0, chrome(win, 140)
	a.goTo(s.Home, "")
	a.wait(5)
	a.click(Link{URL: s.List(1, 1)})
	a.wait(5)
	a.back()
	count := map[string]int{}
	for _, e := range l.Events {
		count[e.Method+e.URI]++
	}
	for _, u := range []string{"GET/static/css/main.7f3a91c2.css", "GET/favicon.ico", "GET/"} {
		if count[u] != 1 {
			t.Errorf("%s asked for %d times", u, count[u])
		}
	}
}
