package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// theirMethods are called by the standard library and by libraries, through interfaces that are theirs.
var theirMethods = []string{
	"As", "Close", "Error", "Format", "Is", "Len", "Less", "MarshalJSON", "MarshalText", "MarshalYAML", "Pop", "Push", "Read",
	"ServeHTTP", "String", "Swap", "Unwrap", "UnmarshalJSON", "UnmarshalText", "UnmarshalYAML", "Write", "WriteTo",
	"Validate", // of a section of the configuration: each has it
}

// exports are the exported names of a package's code, and where they are written outside it.
type exports struct {
	defined map[string][]string        // by package: names, of methods with their type
	types   map[string]map[string]bool // by package: types that some exported declaration names
	written map[string]map[string]bool // by name: packages that write it behind a dot
	asked   map[string]bool            // methods of interfaces of this tree
}

// TestArchExports: an exported function, type, variable, constant or method is there because another package uses it,
// tests included. It goes by names, not by types, so that it costs nothing: what it finds is so, and it finds most.
func TestArchExports(t *testing.T) {
	e := exports{map[string][]string{}, map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}}
	eachGoFile(t, func(name string) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		e.read(filepath.ToSlash(filepath.Dir(name)), file, strings.HasSuffix(name, "_test.go"))
	})
	e.readTemplates(t)
	n := 0
	for pkg, names := range e.defined {
		for _, name := range names {
			n++
			if !e.used(pkg, name) {
				t.Errorf("%s.%s is exported, and no other package uses it", pkg, name)
			}
		}
	}
	if n < 500 {
		t.Errorf("only %d exported names: the test does not look where the code is", n)
	}
}

// readTemplates notes the names that templates write behind a dot.
func (e *exports) readTemplates(t *testing.T) {
	files, err := filepath.Glob("*/*.html")
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range templateName.FindAllSubmatch(text, -1) {
			e.write(string(m[1]), "templates of "+file)
		}
	}
}

var templateName = regexp.MustCompile(`\.([A-Z]\w*)`)

func (e *exports) write(name, by string) {
	if e.written[name] == nil {
		e.written[name] = map[string]bool{}
	}
	e.written[name][by] = true
}

func (e *exports) used(pkg, name string) bool {
	typ, method, is := strings.Cut(name, ".")
	if is {
		name = method
		if slices.Contains(theirMethods, method) || e.asked[method] {
			return true
		}
	} else if e.types[pkg][typ] {
		return true
	}
	for by := range e.written[name] {
		if by != pkg {
			return true
		}
	}
	return false
}

func (e *exports) read(pkg string, file *ast.File, test bool) {
	by := pkg
	if strings.HasSuffix(file.Name.Name, "_test") {
		by += "_test"
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			e.write(n.Sel.Name, by)
		case *ast.InterfaceType:
			for _, m := range n.Methods.List {
				for _, name := range m.Names {
					e.asked[name.Name] = true
				}
			}
		}
		return true
	})
	if test || forTests(pkg) {
		return
	}
	for _, d := range file.Decls {
		e.declare(pkg, d)
	}
}

func (e *exports) declare(pkg string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if of := receiver(d); ast.IsExported(d.Name.Name) && (of == "" || ast.IsExported(of)) {
			e.defined[pkg] = append(e.defined[pkg], of+d.Name.Name)
			e.names(pkg, d.Type)
		}
	case *ast.GenDecl:
		typed := false // constants of a type: the values that it has
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					e.defined[pkg] = append(e.defined[pkg], s.Name.Name)
					e.names(pkg, s.Type)
				}
			case *ast.ValueSpec:
				typed = typed || d.Tok == token.CONST && s.Type != nil
				for _, name := range s.Names {
					if name.IsExported() && !typed {
						e.defined[pkg] = append(e.defined[pkg], name.Name)
					}
				}
				if s.Type != nil && s.Names[0].IsExported() {
					e.names(pkg, s.Type)
				}
			}
		}
	}
}

// names notes the types of the package that an exported declaration is written with.
func (e *exports) names(pkg string, n ast.Node) {
	if e.types[pkg] == nil {
		e.types[pkg] = map[string]bool{}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			return false
		case *ast.Ident:
			e.types[pkg][n.Name] = true
		}
		return true
	})
}
