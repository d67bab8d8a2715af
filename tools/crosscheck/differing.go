package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// listed is what go list says of a package and of its tests.
type listed struct {
	ImportPath, Dir, ForTest           string
	Standard                           bool
	Module                             *struct{ Main bool }
	Imports, TestImports, XTestImports []string
}

func (l *listed) own() bool { return l.Module != nil && l.Module.Main }

// list returns the packages of the module, and all that they and their tests need, by path.
func list() (map[string]*listed, error) {
	c := exec.Command("go", "list", "-e", "-deps", "-test", "-json=ImportPath,Dir,ForTest,Standard,Module,Imports,TestImports,XTestImports", "./...")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	all := map[string]*listed{}
	for in := json.NewDecoder(out); err == nil; {
		var l listed
		if err = in.Decode(&l); err == nil && l.ForTest == "" && !strings.HasSuffix(l.ImportPath, ".test") {
			all[l.ImportPath] = &l
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err := errors.Join(err, c.Wait()); err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return all, nil
}

// differing returns the packages of the module for which something may be another on a target than here, where go vet has seen
// them:
//
//  1. those of which other files are compiled there, tests included, and what only is for that;
//  2. what imports a package that exports something else there: syscall (of the standard library, nothing else does that on a
//     Unix and a processor of 64 bits: api/*.txt in GOROOT), or one of another module;
//  3. what needs a package of this module that exports something else there, by whatever way.
func differing(packages map[string]*listed, system, processor string) ([]string, error) {
	here, there := build.Default, build.Default
	here.GOOS, here.GOARCH, here.CgoEnabled = runtime.GOOS, runtime.GOARCH, false
	there.GOOS, there.GOARCH, there.CgoEnabled = system, processor, false
	var faults []error
	files := map[string][2][]string{} // by folder
	only := func(dir string) [2][]string {
		o, asked := files[dir]
		if !asked {
			var err error
			o, err = apart(dir, &here, &there)
			faults, files[dir] = append(faults, err), o
		}
		return o
	}
	known := map[string]bool{}
	var exports func(path string) bool // something else, itself or by what it needs of this module
	exports = func(path string) bool {
		l := packages[path]
		if l == nil || l.Standard {
			return path == "syscall"
		}
		is, asked := known[path]
		if !asked {
			o := only(l.Dir)
			is = !slices.Equal(surface(l.Dir, o[0], &faults), surface(l.Dir, o[1], &faults)) || l.own() && slices.ContainsFunc(l.Imports, func(p string) bool {
				return packages[p] != nil && packages[p].own() && exports(p)
			})
			known[path] = is
		}
		return is
	}
	var all []string
	for path, l := range packages {
		if !l.own() {
			continue
		}
		if o := only(l.Dir); len(o[0])+len(o[1]) > 0 || slices.ContainsFunc(slices.Concat(l.Imports, l.TestImports, l.XTestImports), exports) {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return all, errors.Join(faults...)
}

// apart returns the Go files of a folder that are compiled only here, and those only there.
func apart(dir string, here, there *build.Context) (only [2][]string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return only, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		h, err := here.MatchFile(dir, e.Name())
		if err != nil {
			return only, err
		}
		t, err := there.MatchFile(dir, e.Name())
		if err != nil {
			return only, err
		}
		if h && !t {
			only[0] = append(only[0], e.Name())
		}
		if t && !h {
			only[1] = append(only[1], e.Name())
		}
	}
	return only, nil
}

// surface returns what files declare for other packages, in order.
func surface(dir string, names []string, faults *[]error) []string {
	var all []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			*faults = append(*faults, err)
			continue
		}
		ast.FileExports(f)
		for _, d := range f.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				f.Body = nil
			}
			var text strings.Builder
			if err := printer.Fprint(&text, files, d); err != nil {
				*faults = append(*faults, err)
			}
			all = append(all, text.String())
		}
	}
	slices.Sort(all)
	return all
}
