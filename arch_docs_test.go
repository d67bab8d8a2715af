package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "redraw the picture of the rooms in docs/architecture.md")

const architecture = "docs/architecture.md"

// eachGoFile calls f with the name of every file of Go in the tree.
func eachGoFile(t *testing.T, f func(name string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".go"):
			f(filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// forTests are the packages that only tests use; they are no rooms.
func forTests(pkg string) bool {
	return strings.HasPrefix(pkg, "e2e") || slices.Contains([]string{"store/storetest", "store/redisstore/redistest", "message/learn/corpus", "proxy/asktest", "servertest"}, pkg)
}

// drawing is the import table as a graph, without the arrows that follow from others.
func drawing() string {
	reaches := map[string]map[string]bool{}
	var reach func(pkg string) map[string]bool
	reach = func(pkg string) map[string]bool {
		if reaches[pkg] == nil {
			reaches[pkg] = map[string]bool{}
			for _, to := range allowed[pkg] {
				reaches[pkg][to] = true
				for far := range reach(to) {
					reaches[pkg][far] = true
				}
			}
		}
		return reaches[pkg]
	}
	title := func(pkg string) string {
		if pkg == "." {
			return "main"
		}
		return pkg
	}
	id := strings.NewReplacer("/", "_", ".", "main")
	var b strings.Builder
	b.WriteString("```mermaid\ngraph TD\n")
	var names []string
	for pkg := range allowed {
		if !forTests(pkg) {
			names = append(names, pkg)
		}
	}
	slices.Sort(names)
	for _, pkg := range names {
		fmt.Fprintf(&b, "  %s[%s]\n", id.Replace(pkg), title(pkg))
	}
	for _, pkg := range names {
		for _, to := range slices.Sorted(slices.Values(allowed[pkg])) {
			if !slices.ContainsFunc(allowed[pkg], func(o string) bool { return o != to && reach(o)[to] }) {
				fmt.Fprintf(&b, "  %s --> %s\n", id.Replace(pkg), id.Replace(to))
			}
		}
	}
	return b.String() + "```\n"
}

// TestArchPicture: the picture of the rooms is that of the import table.
func TestArchPicture(t *testing.T) {
	data, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- rooms -->\n", "<!-- /rooms -->"
	before, rest, found := strings.Cut(string(data), begin)
	old, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the picture", architecture)
	}
	want := drawing()
	if old == want {
		return
	}
	if !*update {
		t.Fatalf("the picture in %s is not that of the import table: go test . -run TestArchPicture -update", architecture)
	}
	if err := os.WriteFile(architecture, []byte(before+begin+want+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

var (
	inCode       = regexp.MustCompile("`([^`]+)`")
	functionName = regexp.MustCompile(`^[a-z0-9/]+(\.[A-Za-z]\w*){1,2}$`)
)

// TestArchWalks: every function that the walks pass exists.
func TestArchWalks(t *testing.T) {
	there := map[string]bool{}
	eachGoFile(t, func(name string) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				there[filepath.ToSlash(filepath.Dir(name))+"."+receiver(f)+f.Name.Name] = true
			}
		}
	})
	_, walks, _ := strings.Cut(section(t, "## The four walks"), "\n")
	if n := strings.Count(walks, "\n### "); n != 4 {
		t.Errorf("%d walks", n)
	}
	n := 0
	for _, m := range inCode.FindAllStringSubmatch(walks, -1) {
		if !functionName.MatchString(m[1]) {
			continue
		}
		if n++; !there[m[1]] {
			t.Errorf("there is no function %s", m[1])
		}
	}
	if n < 25 {
		t.Errorf("only %d functions are named", n)
	}
}

// receiver returns the type of a method with a dot, or nothing.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	if name, ok := typ.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// section returns a section of the architecture with its heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	data, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(data), heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", architecture, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return heading + "\n" + text
}

// TestArchPlaces: the table of changes has twenty examples or more, and the places that it names exist.
func TestArchPlaces(t *testing.T) {
	rows, places := 0, 0
	for line := range strings.Lines(section(t, "## Where does a change belong?")) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.HasPrefix(cells[1], "---") || strings.HasPrefix(cells[1], " you want") {
			continue
		}
		rows++
		for _, m := range inCode.FindAllStringSubmatch(cells[2], -1) {
			if m[1] != strings.ToLower(m[1]) || m[1] == "why" {
				continue // a type, or a command
			}
			places++
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("row %d: %v", rows, err)
			}
		}
	}
	if rows < 20 || places < 20 {
		t.Errorf("%d rows with %d places", rows, places)
	}
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

// TestArchCitedDocuments: a Go file cites no document but those of this repository, by their paths from its root.
func TestArchCitedDocuments(t *testing.T) {
	cited := regexp.MustCompile(`\b(?:docs|deploy)/[A-Za-z0-9_./-]*[A-Za-z0-9]\.(?:md|yaml|conf|cfg|lua)\b`)
	elsewhere := regexp.MustCompile(`\b(?:` + strings.Join([]string{"DESI" + "GN", "FORM" + "ATS", "PITF" + "ALLS", "FRONT" + "END", "FASTH" + "TTP", "STY" + "LE"}, "|") + `)\b`)
	eachGoFile(t, func(name string) {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range cited.FindAllString(string(src), -1) {
			if _, err := os.Stat(doc); err != nil {
				t.Errorf("%s cites %s, which does not exist", name, doc)
			}
		}
		if word := elsewhere.FindString(string(src)); word != "" {
			t.Errorf("%s cites %s, which is not in this repository", name, word)
		}
	})
}

// TestArchLinks: what the documents link to in this repository exists, headings included.
func TestArchLinks(t *testing.T) {
	docs := []string{"README.md", "CHANGELOG.md"}
	err := filepath.WalkDir("docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, ".md") {
			docs = append(docs, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)\s:#]*)(?:#([^)\s:]*))?\)`)
	n := 0
	for _, doc := range docs {
		data, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			n++
			to := doc
			if m[1] != "" {
				to = path.Join(path.Dir(doc), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which does not exist", doc, to)
			} else if m[2] != "" && !slices.Contains(headings(t, to), m[2]) {
				t.Errorf("%s links to %s#%s; there is no such heading", doc, to, m[2])
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d links were found", n)
	}
}

// headings returns the anchors of a document's headings, as code hosts make them. A heading that is there twice counts once.
func headings(t *testing.T, doc string) (all []string) {
	t.Helper()
	data, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	code := false
	for line := range strings.Lines(string(data)) {
		if code = code != strings.HasPrefix(line, "```"); code || !strings.HasPrefix(line, "#") {
			continue
		}
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(strings.TrimLeft(line, "#"))))
	}
	return all
}
