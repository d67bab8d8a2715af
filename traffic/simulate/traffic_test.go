//go:build !race

package main

import (
	"encoding/csv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"antirobot/servertest"
	"antirobot/traffic"
)

// TestHeldOutIsNeverTrainedOn: what is written for training has no kind that is held out, unless it is asked for by name; and
// then tools/train.py refuses it.
func TestHeldOutIsNeverTrainedOn(t *testing.T) {
	t.Parallel()
	write := func(extra ...string) (file string, sources map[string]int) {
		file = filepath.Join(t.TempDir(), "labelled.csv")
		args := append([]string{"--profile", "guests,agents", "--length", "30m", "--warm-up", "25h", "--scale", "0.1", "--factors", file}, extra...)
		if err := simulate(t.Context(), args, io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		sources = map[string]int{}
		for _, r := range rows[1:] {
			sources[r[1]]++
		}
		return file, sources
	}
	_, tuning := write()
	if len(tuning) < 8 {
		t.Errorf("only %v is for training", tuning)
	}
	for s := range tuning {
		kind, habit, _ := strings.Cut(s, "-")
		if strings.HasPrefix(s, heldOut) || traffic.IsHeldOut(traffic.Kind(kind), habit) {
			t.Errorf("%s is held out, and written for training", s)
		}
	}
	file, held := write("--set", "held-out")
	for s := range held {
		if !strings.HasPrefix(s, heldOut) {
			t.Errorf("the source of what is held out is %q", s)
		}
	}
	python := servertest.Need(t, "python3")
	out, err := exec.Command(python, "../../tools/train.py", "--data", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is held out") {
		t.Errorf("train.py takes what is held out: %v\n%s", err, out)
	}
}

// TestTrainSaysWhatIsWrong: a file that is no table of labelled factors is named with its line, not with a trace of calls.
func TestTrainSaysWhatIsWrong(t *testing.T) {
	python := servertest.Need(t, "python3")
	for text, want := range map[string]string{
		"visitor,label\na,0\nb,human\n": "line 3: label: 'human' is neither 1 (robot) nor 0 (human) nor empty",
		"visitor,labels\na,0\n":         "there is no column label",
		"":                              "there is no column label",
	} {
		file := filepath.Join(t.TempDir(), "data.csv")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(python, "../../tools/train.py", "--data", file).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "Traceback") {
			t.Errorf("%q: %v\n%s", text, err, out)
		}
	}
}
