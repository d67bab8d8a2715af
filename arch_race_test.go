package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sources is what the files of a package say of what runs beside it.
type sources struct {
	starts, testStarts string // what starts something: a place, or nothing
	needs, testNeeds   []string
}

// runsBeside matches a call of what is run by a goroutine of its own, and a library that serves or dials.
var (
	runsBeside = regexp.MustCompile(`^(Go|AfterFunc|Parallel|RunParallel|Notify|AddCleanup|SetFinalizer)$`)
	serves     = regexp.MustCompile(`^(net|net/http(/.*)?|os/signal|testing/synctest)$`)
)

// read adds a file.
func (s *sources) read(set *token.FileSet, name string, file *ast.File) {
	starts, needs := &s.starts, &s.needs
	if strings.HasSuffix(name, "_test.go") {
		starts, needs = &s.testStarts, &s.testNeeds
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if own, ok := strings.CutPrefix(imported, "antirobot/"); ok {
			*needs = append(*needs, own)
		} else if err != nil || serves.MatchString(imported) {
			*starts = name + " imports " + imported
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			*starts = set.Position(n.Pos()).String()
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && runsBeside.MatchString(f.Sel.Name) {
				*starts = set.Position(n.Pos()).String()
			}
		}
		return true
	})
}

// TestArchAlone: a package is tested without the race detector only if there is no race to find: neither it, nor its tests, nor a package of
// ours that either needs, starts anything that runs beside it.
func TestArchAlone(t *testing.T) {
	all := map[string]*sources{}
	set := token.NewFileSet()
	eachGoFile(t, func(name string) {
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		pkg := path.Dir(name)
		if all[pkg] == nil {
			all[pkg] = &sources{}
		}
		all[pkg].read(set, name, file)
	})
	out, err := exec.Command("tools/norace.sh", "alone").Output()
	if err != nil {
		t.Fatal(err)
	}
	alone := strings.Fields(string(out))
	if len(alone) < 5 {
		t.Errorf("tools/norace.sh finds %q", alone)
	}
	for _, name := range alone {
		pkg := strings.TrimPrefix(name, "antirobot/")
		if all[pkg] == nil {
			t.Fatalf("tools/norace.sh names %s, which is no package", name)
		}
		beside := all[pkg].testStarts
		seen := []string{}
		for todo := append([]string{pkg}, all[pkg].testNeeds...); len(todo) > 0; todo = todo[1:] {
			if s := all[todo[0]]; s != nil && !slices.Contains(seen, todo[0]) {
				seen, todo, beside = append(seen, todo[0]), append(todo, s.needs...), beside+s.starts
			}
		}
		if beside != "" {
			t.Errorf("%s is tested without the race detector, but: %s", pkg, beside)
		}
	}
}
