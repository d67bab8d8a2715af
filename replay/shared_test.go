package replay

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// sharedLog returns the whole log from which testdata/apache.log is taken, if available: beside the project, or beside
// the place where its worktrees are.
func sharedLog(t *testing.T) Input {
	t.Helper()
	for _, up := range []string{"../../", "../../../"} {
		in, err := Files(up+"shared/data/elastic-apache-logs/apache_logs", nil)
		if err == nil {
			return in[0]
		}
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	t.Skip("SKIPPED for want of the whole log: testdata/SOURCE.md says where it is from")
	return Input{}
}

// TestWholeLog reads ten thousand real lines: all but the one that is cut off, in chronological order.
func TestWholeLog(t *testing.T) {
	l, err := Open(context.Background(), []Input{sharedLog(t)}, Options{Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n, addresses, agents := 0, map[string]bool{}, map[string]bool{}
	var last time.Time
	for {
		r, err := l.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.At.Before(last) {
			t.Fatalf("line %d: time goes back", r.Line)
		}
		n, last = n+1, r.At
		addresses[r.Addr.String()] = true
		agents[string(r.Agent())] = true
		l.release(r)
	}
	c := l.counted()
	if n != 9999 || c.Lines != 10_000 || c.Bad != 1 || c.Late != 0 || c.Problems[0].Line != 8899 || len(addresses) != 1753 || len(agents) < 500 {
		t.Errorf("%d records, %+v, %d addresses, %d agents", n, c, len(addresses), len(agents))
	}
}
