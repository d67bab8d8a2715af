package cmd

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "collect the licences again")

// module is a library in the program.
type module struct{ path, version, dir string }

// modules are what the program consists of, on any of the systems that it is built for.
func modules(t *testing.T) []module {
	t.Helper()
	seen := map[string]module{}
	for _, system := range []string{"linux", "darwin", "freebsd"} {
		cmd := exec.Command("go", "list", "-deps", "-f", `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{with .Replace}}{{.Dir}}{{else}}{{.Dir}}{{end}}{{end}}{{end}}`, "antirobot")
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) == 3 {
				seen[f[0]] = module{f[0], f[1], f[2]}
			}
		}
	}
	var all []module
	for _, m := range seen {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return all
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense)([.-].*)?$`)

// licenceOf is what a directory says of rights.
func licenceOf(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, e := range list {
		if e.Type().IsRegular() && licenceFile.MatchString(e.Name()) && !strings.HasSuffix(e.Name(), ".go") {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n")))
		}
	}
	return strings.Join(texts, "\n\n")
}

// TestLicences: the program has the licence of every library that it consists of, and of no other version of it.
func TestLicences(t *testing.T) {
	all := modules(t)
	if len(all) < 20 {
		t.Fatalf("only %d modules", len(all))
	}
	if *update {
		collectLicences(t, all)
	}
	z, err := gzip.NewReader(bytes.NewReader(embedded(t)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, m := range all {
		want[m.path+" "+m.version] = true
	}
	for _, line := range regexp.MustCompile(`(?m)^\* (\S+ v\S+)$`).FindAllStringSubmatch(string(text), -1) {
		if !want[line[1]] {
			t.Errorf("%s has a licence here and is not in the program: go test ./cmd -run TestLicences -update", line[1])
		}
		delete(want, line[1])
	}
	for m := range want {
		t.Errorf("the licence of %s is missing: go test ./cmd -run TestLicences -update", m)
	}
	if !strings.Contains(string(text), "* Go, its standard library") {
		t.Error("nothing is said of Go itself")
	}
}

// embedded is the file as it stands now, which -update may just have written.
func embedded(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("licences.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	if !*update && !bytes.Equal(b, licences) {
		t.Error("the program has other licences than the file")
	}
	return b
}

func collectLicences(t *testing.T, all []module) {
	t.Helper()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string][]string{licenceOf(t, strings.TrimSpace(string(goroot))): {"Go, its standard library"}}
	for _, m := range all {
		text := licenceOf(t, m.dir)
		if text == "" {
			t.Errorf("%s has no licence in %s", m.path, m.dir)
		}
		by[text] = append(by[text], m.path+" "+m.version)
	}
	var parts []string
	for text, who := range by {
		parts = append(parts, "* "+strings.Join(who, "\n* ")+"\n\n"+text+"\n")
	}
	slices.Sort(parts)
	var file bytes.Buffer
	z, _ := gzip.NewWriterLevel(&file, gzip.BestCompression)
	fmt.Fprintf(z, "What is inside this program, beside its own code:\n\n%s", strings.Join(parts, "\n"+strings.Repeat("-", 80)+"\n\n"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("licences.txt.gz", file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
