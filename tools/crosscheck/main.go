// Command crosscheck vets the module in the working directory, its tests included, for other systems and processors:
//
//	crosscheck darwin/arm64 freebsd/amd64 linux/arm64
//
// It says what go vet says for that GOOS and GOARCH: the errors of the compiler's type checker, then the findings of vet's
// analyzers. It needs seconds where go vet needs minutes, because it compiles nothing: of the packages that the module
// imports, the standard library included, it reads the declarations only; and it looks only at the packages for which
// something may be another there than here, where go vet looks at all (differing). What it can't find is a fault of a linker or
// an assembler; make cross-build finds those.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: crosscheck GOOS/GOARCH...   for the module in the working directory")
		os.Exit(2)
	}
	debug.SetGCPercent(400) // what is read of a target stays until the next
	read := &reader{files: token.NewFileSet()}
	faults := 0
	for _, target := range os.Args[1:] {
		n, err := read.check(target)
		if err != nil {
			fmt.Fprintf(os.Stderr, "crosscheck %s: %v\n", target, err)
			os.Exit(1)
		}
		faults += n
	}
	if faults > 0 {
		os.Exit(1)
	}
}

// reader reads each file once, for all targets.
type reader struct {
	files *token.FileSet
	known sync.Map // *ast.File by kept; nobody changes it
	here  map[string]*listed
}

// kept says of a file whether it is there as a whole: for one target it may be looked at, and only needed for another.
type kept struct {
	name  string
	whole bool
}

// differing returns the packages to look at, and their folders.
func (r *reader) differing(system, processor string) (paths []string, within map[string]bool, err error) {
	if r.here == nil {
		if r.here, err = list(); err != nil {
			return nil, nil, err
		}
	}
	paths, err = differing(r.here, system, processor)
	within = map[string]bool{}
	for _, path := range paths {
		within[r.here[path].Dir] = true
	}
	return paths, within, err
}

func (r *reader) parse(files *token.FileSet, name string, text []byte, whole bool) (*ast.File, error) {
	k := kept{name, whole}
	if f, ok := r.known.Load(k); ok {
		return f.(*ast.File), nil
	}
	f, err := parse(files, name, text, whole)
	if err == nil {
		r.known.Store(k, f)
	}
	return f, err
}

// check prints what is wrong for one target and counts it.
func (r *reader) check(target string) (int, error) {
	system, processor, both := strings.Cut(target, "/")
	if !both {
		return 0, fmt.Errorf("a target is GOOS/GOARCH, like linux/arm64")
	}
	env := append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	paths, within, err := r.differing(system, processor)
	if err != nil || len(paths) == 0 {
		return 0, err
	}
	loaded, err := packages.Load(&packages.Config{
		Mode:  packages.LoadAllSyntax | packages.NeedModule | packages.NeedForTest,
		Tests: true,
		Env:   env,
		Fset:  r.files,
		ParseFile: func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
			return r.parse(files, name, text, within[filepath.Dir(name)])
		},
	}, paths...)
	if err != nil {
		return 0, err
	}
	loaded = slices.DeleteFunc(loaded, func(p *packages.Package) bool { return strings.HasSuffix(p.ID, ".test") }) // generated
	faults := 0
	for _, p := range loaded {
		for _, e := range p.Errors {
			fmt.Printf("%s: %v\n", target, e)
			faults++
		}
	}
	if faults > 0 {
		return faults, nil
	}
	loaded = once(loaded)
	packages.Visit(loaded, nil, func(p *packages.Package) { p.IllTyped = false }) // a function without a body is no fault here
	graph, err := checker.Analyze(analyzers(), loaded, nil)
	if err != nil {
		return 0, err
	}
	said := map[string]bool{} // a file stands in its package and in the one with the tests
	for _, a := range graph.Roots {
		if a.Err != nil {
			return 0, fmt.Errorf("%s: %w", a, a.Err)
		}
		for _, d := range a.Diagnostics {
			if line := fmt.Sprintf("%s: %s: %s", target, a.Package.Fset.Position(d.Pos), d.Message); !said[line] {
				said[line] = true
				fmt.Println(line)
				faults++
			}
		}
	}
	return faults, nil
}

// once leaves out packages that stand there once more, with their tests: as go vet does, since all their files are in that.
func once(loaded []*packages.Package) []*packages.Package {
	tested := map[string]bool{}
	for _, p := range loaded {
		tested[p.ForTest] = tested[p.ForTest] || p.PkgPath == p.ForTest
	}
	return slices.DeleteFunc(loaded, func(p *packages.Package) bool { return p.ForTest == "" && tested[p.PkgPath] })
}

// analyzers are vet's, but for what the toolchain's own vet does not ask yet: both say the same of one tree.
func analyzers() []*analysis.Analyzer {
	return slices.DeleteFunc(slices.Clone(vet.Suite), func(a *analysis.Analyzer) bool { return a.Name == "scannererr" })
}

// parse leaves out of what is not looked at the bodies of functions and what literals of variables hold (tables of millions of
// characters, of which only the type counts): nobody here asks for them.
func parse(files *token.FileSet, name string, text []byte, whole bool) (*ast.File, error) {
	f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil || whole {
		return f, err
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			d.Body = nil
		case *ast.GenDecl:
			if d.Tok == token.VAR {
				ast.Inspect(d, emptied)
			}
		}
	}
	return f, nil
}

// emptied takes the elements out of a literal whose type does not depend on them.
func emptied(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		n.Body.List = nil
		return false
	case *ast.CompositeLit:
		list, isList := n.Type.(*ast.ArrayType)
		if isList {
			_, counted := list.Len.(*ast.Ellipsis)
			isList = counted
		}
		if n.Type != nil && !isList {
			n.Elts = nil
		}
	}
	return true
}
