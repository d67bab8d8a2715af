package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

var pitfallTest = regexp.MustCompile(`/(?:Test|Fuzz)Pitfall0*([1-9]\d*)`)

// TestArchPitfalls: each pitfall in the table of docs/threat-model.md has a test named after it, and each such test a row.
func TestArchPitfalls(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for name := range testFunctions(t, ".") {
		if m := pitfallTest.FindStringSubmatch(name); m != nil {
			tested[m[1]] = true
		}
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(string(text), -1)
	if len(rows) < 27 {
		t.Errorf("%d rows of pitfalls", len(rows))
	}
	for _, row := range rows {
		if !tested[row[1]] {
			t.Errorf("pitfall %s has no test", row[1])
		}
		delete(tested, row[1])
	}
	for n := range tested {
		t.Errorf("pitfall %s has tests and no row", n)
	}
}
