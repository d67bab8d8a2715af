package storetest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"antirobot/store"
)

func testReopen(t *testing.T, s store.Store, o Options) {
	if o.Reopen == nil {
		t.Skip("the backend forgets")
	}
	u := o.unit()
	must(t, s.Put(bg, b("ever"), b("1"), 0))
	must(t, s.Put(bg, b("long"), b("2"), 100*u))
	must(t, s.Put(bg, b("short"), b("3"), 2*u))
	must(t, s.Put(bg, b("deleted"), b("4"), 0))
	must(t, s.Delete(bg, b("deleted")))
	if _, err := s.Spend(bg, b("spent"), 100*u); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Take(bg, b("taken"), 7, 10, 100*u); err != nil {
		t.Fatal(err)
	}
	must(t, s.Append(bg, "t", b("m1")))
	pos, err := s.Position(bg, "t")
	must(t, err)
	must(t, s.Append(bg, "t", b("m2")))

	o.advance(2 * u)
	s = o.Reopen(t, s)
	wantValue(t, s, "ever", b("1"))
	wantValue(t, s, "long", b("2"))
	wantValue(t, s, "short", nil)
	wantValue(t, s, "deleted", nil)
	if first, err := s.Spend(bg, b("spent"), u); err != nil || first {
		t.Errorf("Spend after reopening = %v, %v", first, err)
	}
	if n, err := s.Take(bg, b("taken"), 7, 10, u); err != nil || n != 3 {
		t.Errorf("Take after reopening = %d, %v; want the 3 that are left", n, err)
	}
	must(t, s.Append(bg, "t", b("m3")))
	wantFeed(t, s, "t", pos, "m2", "m3")
	wantFeed(t, s, "t", "0", "m1", "m2", "m3")
}

const killEnv = "ANTIROBOT_STORETEST_KILL"

// killWorkers write concurrently, so that the kill hits shared commits.
const killWorkers = 4

// Kill checks rule 3. It runs the calling test in a child process that writes and prints acknowledgements, kills it at
// various moments, and looks for every acknowledged write. open must use the machine's clock and keep 50 000 messages
// of a feed.
func Kill(t *testing.T, open func(t *testing.T, dir string) store.Store) {
	if dir := os.Getenv(killEnv); dir != "" {
		killChild(t, open(t, dir))
		return
	}
	dir := t.TempDir()
	acked := [killWorkers]int{}
	for round := range 4 {
		killRound(t, dir, time.Duration(20+60*round)*time.Millisecond, &acked)
		s := open(t, dir)
		for w, n := range acked {
			wantSurvivors(t, s, w, n)
		}
		must(t, s.Close())
	}
	t.Logf("acknowledged by worker over all rounds: %v", acked)
}

func wantSurvivors(t *testing.T, s store.Store, w, n int) {
	t.Helper()
	for i := range n {
		key := fmt.Sprintf("%d/%d", w, i)
		wantValue(t, s, key, b(key))
		if first, err := s.Spend(bg, b(key), time.Hour); err != nil || first {
			t.Fatalf("spent key %q can be spent again after kill: %v, %v", key, first, err)
		}
	}
	// The write in progress when the child died may have happened or not.
	if got, err := s.Incr(bg, fmt.Append(nil, w), 0, 0); err != nil || got < int64(n) {
		t.Fatalf("counter %d = %d, %v; at least %d were acknowledged", w, got, err, n)
	}
	if n == 0 {
		return
	}
	next := 0
	ctx, cancel := context.WithTimeout(bg, 20*time.Second)
	defer cancel()
	err := s.Follow(ctx, fmt.Sprint(w), "0", func(_ string, msg []byte) error {
		i, err := strconv.Atoi(string(msg))
		if err != nil {
			return err
		}
		if i == next { // appended but not acknowledged, then again
			next++
		}
		if next == n {
			return errEnough
		}
		return nil
	})
	if err != errEnough { //nolint:errorlint // returned as it is
		t.Fatalf("feed %d ends after %d of %d acknowledged: %v", w, next, n, err)
	}
}

func killRound(t *testing.T, dir string, after time.Duration, acked *[killWorkers]int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	var from []string
	for _, n := range acked {
		from = append(from, strconv.Itoa(n))
	}
	cmd.Env = append(os.Environ(), killEnv+"="+dir, killEnv+"_FROM="+strings.Join(from, ","))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }() // it was killed: an error is expected
	defer func() { _ = cmd.Process.Kill() }()
	lines := bufio.NewScanner(out)
	var timer *time.Timer
	for lines.Scan() {
		var w, i int
		if _, err := fmt.Sscanf(lines.Text(), "acked %d %d", &w, &i); err != nil {
			continue
		}
		acked[w] = i + 1
		if timer == nil {
			timer = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
	}
	if timer == nil {
		t.Fatal("the child wrote nothing")
	}
}

func killChild(t *testing.T, s store.Store) {
	var wg sync.WaitGroup
	var out sync.Mutex
	from := strings.Split(os.Getenv(killEnv+"_FROM"), ",")
	for w := range killWorkers {
		i, err := strconv.Atoi(from[w])
		must(t, err)
		wg.Go(func() {
			for stop := i + 100_000; i < stop; i++ {
				key := fmt.Sprintf("%d/%d", w, i)
				_, err1 := s.Spend(bg, b(key), time.Hour)
				_, err2 := s.Incr(bg, fmt.Append(nil, w), 1, 0)
				if err := firstOf(s.Put(bg, b(key), b(key), time.Hour), err1, err2,
					s.Append(bg, fmt.Sprint(w), fmt.Append(nil, i))); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				out.Lock()
				fmt.Printf("acked %d %d\n", w, i)
				out.Unlock()
			}
		})
	}
	wg.Wait()
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
