// Package corpus reads texts with labels for tests and benchmarks: extracts that are part of the project, or whole data
// sets where they are.
package corpus

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Text is a text with its label.
type Text struct {
	Text string
	Bad  bool
}

var (
	//go:embed testdata/sms-extract.tsv
	smsExtract string
	//go:embed testdata/tg-extract.tsv
	tgExtract string
)

// ExampleRules are the rules that the budgets are measured with.
//
//go:embed testdata/example.rules
var ExampleRules string

func dataDir() string {
	for _, dir := range []string{os.Getenv("ANTIROBOT_DATA"), "../../shared/data", "../../../shared/data"} {
		if _, err := os.Stat(filepath.Join(dir, "sms-spam-collection", "SMSSpamCollection")); dir != "" && err == nil {
			return dir
		}
	}
	return ""
}

// table reads lines of "ham<TAB>text" and "spam<TAB>text".
func table(s string) (out []Text) {
	for line := range strings.Lines(s) {
		if label, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok &&
			(label == "ham" || label == "spam") {
			out = append(out, Text{strings.TrimSuffix(text, "\r"), label == "spam"})
		}
	}
	return out
}

func lines(s string, bad bool) (out []Text) {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, Text{line, bad})
		}
	}
	return out
}

// Further returns further labelled sets (further/NAME.tsv), which are not part of the project.
func Further(t testing.TB) map[string][]Text {
	t.Helper()
	sets := map[string][]Text{}
	files, err := filepath.Glob(filepath.Join(dataDir(), "further", "*.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sets[strings.TrimSuffix(filepath.Base(file), ".tsv")] = table(string(b))
	}
	return sets
}

// Load returns the data sets by name: the whole ones if they are there, otherwise the extracts.
func Load(t testing.TB) (sets map[string][]Text, whole bool) {
	t.Helper()
	dir := dataDir()
	if dir == "" {
		return map[string][]Text{"sms": table(smsExtract), "tg": table(tgExtract)}, false
	}
	read := func(folder, name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return map[string][]Text{
		"sms": table(read("sms-spam-collection", "SMSSpamCollection")),
		"tg": append(lines(read("tg-spam-ru", "ham-samples.txt"), false),
			lines(read("tg-spam-ru", "spam-samples.txt"), true)...),
	}, true
}

// Smoke returns the texts, or under -short, where a benchmark quotes no figure, a few of them.
func Smoke(texts []Text) []Text {
	if testing.Short() {
		return texts[:min(len(texts), 50)]
	}
	return texts
}
