package cmd

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"antirobot/journal"
)

// TestLabFlags: flags say a change as the API takes it; what can't be read is an error of usage.
func TestLabFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("card.yaml", []byte("bias: -4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(want string, args ...string) {
		t.Helper()
		var w labWish
		got := ""
		cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error {
			c, err := w.change()
			if err != nil {
				return err
			}
			text, err := json.Marshal(&c)
			got = string(text)
			return err
		}}
		w.register(cmd)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append([]string{}, args...))
		err := cmd.Execute()
		var usage *usageError
		if errors.As(err, &usage) {
			got = "usage"
		} else if err != nil {
			t.Error(err)
		}
		if got != want {
			t.Errorf("%v: %s, not %s", args, got, want)
		}
	}
	f(`{}`)
	f(`{"services":{"shop":{"threshold":0.6,"limits":[{"window":"1m","requests":300,"ban":"10m"}]}}}`, "--service", "shop", "--threshold", "0.6", "--limit", "1m=300:10m")
	f(`{"card":"bias: -4\n","services":{"default":{"unsure":0.3}}}`, "--unsure", "0.3", "--card", "card.yaml")
	f(`{"model":"none"}`, "--model", "none")
	f("usage", "--threshold", "much")
	f("usage", "--limit", "1m=300")
	f("usage", "--limit", "1m=many:10m")
}

// TestTailPrintsEachOnce: an entry that another gateway writes later, for an earlier request, is printed when it is there, once; what
// lies before the first lines is not.
func TestTailPrintsEachOnce(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	entry := func(id string, seconds int) journal.Entry {
		return journal.Entry{ID: id, Kind: "request", At: at.Add(time.Duration(seconds) * time.Second)}
	}
	var tail tail
	f := func(want string, all ...journal.Entry) {
		t.Helper()
		got := ""
		for _, e := range tail.fresh(all) {
			got += e.ID
		}
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	f("")
	f("dc", entry("d", 9), entry("c", 4))
	f("e", entry("e", 10), entry("d", 9), entry("c", 4), entry("a", 2))
	f("x", entry("e", 10), entry("d", 9), entry("x", 7), entry("c", 4))
	f("")
	f("", entry("e", 10), entry("d", 9), entry("x", 7), entry("c", 4))
	f("g", entry("g", 30))
}
