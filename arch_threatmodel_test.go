package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// testFunctions returns every test, fuzz target and benchmark of the tree as folder/name.
func testFunctions(t *testing.T, root string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				found[filepath.ToSlash(dir)+"/"+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	namedTest    = regexp.MustCompile("`([a-z0-9/]+/(?:Test|Fuzz|Benchmark)[A-Za-z0-9_]*)`")
	pitfallRow   = regexp.MustCompile(`(?m)^\| (\d+) \|.*$`)
	pitfallTest  = regexp.MustCompile(`/TestPitfall0*([1-9]\d*)`)
	pitfallCount = 27
)

// TestArchThreatModel keeps docs/threat-model.md and the tests consistent: everything it names exists, each
// pitfall has a test, and each test that is named after a pitfall is in that pitfall's row.
func TestArchThreatModel(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	have := testFunctions(t, ".")
	if len(have) < 300 {
		t.Fatalf("only %d tests are found: this test does not look where they are", len(have))
	}
	for _, m := range namedTest.FindAllSubmatch(text, -1) {
		if !have[string(m[1])] {
			t.Errorf("the threat model names %s, which does not exist", m[1])
		}
	}
	rows := map[string]string{}
	for _, m := range pitfallRow.FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[0]
	}
	for n := 1; n <= pitfallCount; n++ {
		if row := rows[strconv.Itoa(n)]; !namedTest.MatchString(row) {
			t.Errorf("pitfall %d has no test: %q", n, row)
		}
	}
	for name := range have {
		if m := pitfallTest.FindStringSubmatch(name); m != nil && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("%s is not in the threat model", name)
		} else if m != nil && !strings.Contains(rows[m[1]], "`"+name+"`") {
			t.Errorf("%s is not in the row of pitfall %s", name, m[1])
		}
	}
}
