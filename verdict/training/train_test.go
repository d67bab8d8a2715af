package training_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"antirobot/servertest"
)

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
