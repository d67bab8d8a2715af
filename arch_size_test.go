package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a person can take in at once.
const (
	maxFile     = 400 // lines of a file
	maxFunction = 60  // lines of a function, what is written in it as a table left out
)

// larger are the tables that are larger all the same, with what each may have: no file is among them, and no function that
// is more than a table.
var larger = map[string]int{
	"proxy/h1/wire/syntax.go: knownKind": 70,
}

// TestArchSizes: no file, of tests or not, is longer than a person can take in, and no function outside tests is.
func TestArchSizes(t *testing.T) {
	needed := map[string]bool{}
	check := func(what string, lines, most int) {
		t.Helper()
		if lines <= most {
			return
		}
		needed[what] = true
		if lines > max(larger[what], most) {
			t.Errorf("%s has %d lines, and may have %d", what, lines, max(larger[what], most))
		}
	}
	eachGoFile(t, func(name string) {
		set := token.NewFileSet()
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		check(name, strings.Count(string(src), "\n"), maxFile)
		if strings.HasSuffix(name, "_test.go") || forTests(filepath.ToSlash(filepath.Dir(name))) {
			return // a scenario may be long
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				check(name+": "+receiver(f)+f.Name.Name, linesOf(set, f)-tableLines(set, f), maxFunction)
			}
		}
	})
	for what := range larger {
		if !needed[what] {
			t.Logf("%s is no longer too large: take it off the list", what)
		}
	}
}

func linesOf(set *token.FileSet, n ast.Node) int {
	return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1
}

// tableLines counts the lines of a function that are literals of more than one line, and long texts.
func tableLines(set *token.FileSet, f *ast.FuncDecl) int {
	lines := 0
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			for _, e := range n.Elts { // functions in a table are code
				code := false
				ast.Inspect(e, func(n ast.Node) bool {
					_, is := n.(*ast.FuncLit)
					code = code || is
					return !code
				})
				if code {
					return true
				}
			}
			lines += linesOf(set, n) - 1
			return false
		case *ast.BasicLit:
			lines += linesOf(set, n) - 1
		}
		return true
	})
	return lines
}

// TestArchPackageDocs: every package says what it is for.
func TestArchPackageDocs(t *testing.T) {
	told := map[string]bool{}
	eachGoFile(t, func(name string) {
		pkg := filepath.ToSlash(filepath.Dir(name))
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		told[pkg] = told[pkg] || file.Doc != nil && len(file.Doc.Text()) > 30
	})
	for pkg, ok := range told {
		if !ok {
			t.Errorf("package %s has no comment that says what it is for", pkg)
		}
	}
}
