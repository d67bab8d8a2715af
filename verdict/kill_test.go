package verdict

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/store/pebblestore"
	"antirobot/verdict/bans"
	"antirobot/verdict/ledger"
)

// killEnv makes the test binary act as the process that is killed, over the store in this directory.
const (
	killEnv     = "ANTIROBOT_TEST_KILL_DIR"
	killHammers = "ANTIROBOT_TEST_KILL_HAMMERS"
	killPace    = 200 * time.Microsecond
)

var killPass = pass(day0.AddDate(10, 0, 0), 1, 1000, "192.0.2.1")

// overPebble starts a Cacher over the store in a directory, and returns a func that ends both.
func overPebble(dir string) (*Cacher, func() error, error) {
	st, err := pebblestore.New(pebblestore.Deps{Dir: dir, Log: zerolog.Nop()})
	if err != nil {
		return nil, nil, err
	}
	c, err := New(DefaultConfig(), Deps{Store: st, Lists: &lists{}, Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		return nil, nil, err
	}
	return c, func() error { return errors.Join(c.Close(), st.Close()) }, c.Start(ctx)
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// killedChild is the process that TestPitfall3AllowanceOverKill kills.
func killedChild(dir string) {
	c, _, err := overPebble(dir)
	must(err)
	must(c.Ban(ctx, bans.Ban{Subject: ip("192.0.2.1"), Until: time.Now().Add(time.Hour)}))
	must(c.RevokePass(ctx, [16]byte{9}, time.Hour))
	hammers := os.Getenv(killHammers) != ""
	most := 40
	if hammers {
		most = 100_000
	}
	for n := 1; n <= most; n++ {
		c.spend(&killPass, ledger.Open)
		fmt.Println("spent", n)
		if hammers {
			time.Sleep(killPace)
		}
	}
	for n, _ := c.ledger.Writes().Backlog(); n > 0; n, _ = c.ledger.Writes().Backlog() {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("idle")
	select {}
}

// TestPitfall3AllowanceOverKill: a process that is killed with SIGKILL forgets nothing that was done before the last
// write; between requests that is nothing at all. Under load the test logs how much it forgot.
func TestPitfall3AllowanceOverKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, hammers := range []bool{false, true} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killEnv+"="+dir)
		if hammers {
			cmd.Env = append(cmd.Env, killHammers+"=1")
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said, killed := 0, false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if n, ok := strings.CutPrefix(lines.Text(), "spent "); ok {
				said, _ = strconv.Atoi(n)
			}
			if !killed && (lines.Text() == "idle" || said == 400) {
				killed = true
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		if !killed {
			t.Fatal("the child ended by itself")
		}

		c, end, err := overPebble(dir)
		if err != nil {
			t.Fatal(err)
		}
		rest, _ := c.ledger.Settle(&killPass, &ledger.Bill{Cost: 1}, c.now(), ledger.Open, false)
		spent := int(killPass.Allowance - rest.Left)
		lost := said - spent
		t.Logf("hammers %v: %d spent, %d known after the kill: a window of %v", hammers, said, spent, time.Duration(lost)*killPace)
		if !hammers && lost != 0 {
			t.Errorf("%d of %d payments are forgotten", lost, said)
		}
		if hammers && (lost < -1 || time.Duration(lost)*killPace > time.Second) {
			t.Errorf("%d of %d payments are forgotten", lost, said)
		}
		if n := len(c.Bans(BanFilter{Subject: ip("192.0.2.1")})); n != 1 {
			t.Errorf("%d bans after the kill", n)
		}
		if !c.Revoked([16]byte{9}, time.Now().Unix()) {
			t.Error("the revocation is forgotten")
		}
		n := 0
		for range 2000 {
			if c.spend(&killPass, ledger.Open).OK {
				n++
			}
		}
		if spent+n != 1000 {
			t.Errorf("%d paid in all by the new process's count, want 1000", spent+n)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}
