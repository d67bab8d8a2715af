package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// skippedEnv names a file to which each skipped test appends a line: what it lacks, the command that helps, and its name,
// separated by tabs. `make test` prints them in sum. The file lies in the module, so that go test does not cache such a result.
const skippedEnv = "SKIPPED_TESTS"

// deps installs the servers, browsers and clients that tests use.
const deps = "make deps"

// Need returns the path of the first of these programs that is installed. Without any, it skips the test loudly; with CI set, it
// fails the test.
func Need(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		for _, p := range []string{name, "/usr/sbin/" + name} {
			if found, err := exec.LookPath(p); err == nil {
				if found, err = filepath.Abs(found); err == nil { // tests run it in other folders
					return found
				}
			}
		}
	}
	Lack(t, filepath.Base(names[0]), deps)
	return ""
}

// Python is Need for a Python that has a module.
func Python(t testing.TB, module string) string {
	t.Helper()
	for _, p := range []string{"python3", "/usr/bin/python3"} { // the module may be Debian's
		if exec.Command(p, "-c", "import "+module).Run() == nil {
			return p
		}
	}
	Lack(t, "python3-"+module, deps)
	return ""
}

// Tool is Need for a program that the Makefile builds into .bin.
func Tool(t testing.TB, name string) string {
	t.Helper()
	return inBin(t, name, "make tools")
}

// Module is Need for an npm package, of which it returns the directory.
func Module(t testing.TB, name string) string {
	t.Helper()
	Need(t, "node")
	return inBin(t, filepath.Join("node_modules", name), deps)
}

func inBin(t testing.TB, name, how string) string {
	t.Helper()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(dir, ".bin", name)
	if _, err := os.Stat(p); err != nil {
		Lack(t, filepath.Base(name), how)
	}
	return p
}

// root is the directory of the module.
var root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above %s", dir)
		}
		dir = filepath.Dir(dir)
	}
	return "", err
})

// Lack skips the test for want of something, and notes it for the summary of `make test`; how is the command that helps. With CI
// set, nothing may be skipped: it fails the test.
func Lack(t testing.TB, what, how string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing, and in CI nothing may be skipped: %s", what, how)
	}
	if name := os.Getenv(skippedEnv); name != "" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(f, "%s\t%s\t%s\n", what, how, t.Name())
		if end := f.Close(); err != nil || end != nil {
			t.Fatal(err, end)
		}
	}
	t.Skipf("SKIPPED for want of %s: %s", what, how)
}
