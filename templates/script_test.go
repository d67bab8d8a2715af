//go:build !race

package templates

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"antirobot/servertest"
)

var update = flag.Bool("update", false, "write what the tests compare with")

// TestScriptTexts: the texts inside antirobot.js are those of the English catalogue, but for those of moving pictures.
func TestScriptTexts(t *testing.T) {
	s, _ := newSet(t, nil)
	var b strings.Builder
	b.WriteString("// The dialog's texts in English, which need no further request. Made from ../locales by\n" +
		"// `go test ./templates -run TestScriptTexts -update`; do not edit.\n\nimport type { Texts } from './antirobot';\n\n" +
		"export const builtin: Texts = {\n")
	var texts map[string]string
	if err := json.Unmarshal(s.Lang("en").Texts().Body, &texts); err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Concat([]string{"lang", "dir"}, scriptTexts[:]) {
		if strings.HasPrefix(key, "moving_") {
			continue
		}
		v, err := json.Marshal(texts[key])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "  %s: %s,\n", key, v)
	}
	b.WriteString("};\n")
	same(t, filepath.Join("js", "texts.ts"), []byte(b.String()))
}

// same compares a committed file with what it is generated from, or writes it.
func same(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not fresh: run make js", file)
	}
}

// scriptBuilds are the commands that build the committed scripts. The Makefile has the same lines.
var scriptBuilds = map[string][]string{
	"static/antirobot.js":  {"js/script.ts", "--format=iife"},
	"static/antirobot.mjs": {"js/antirobot.ts", "--format=esm"},
	"static/work.js":       {"js/work.ts", "--format=iife"},
	"static/steps.js":      {"js/steps.ts", "--format=iife"},
	"static/evidence.js":   {"js/evidence.ts", "--format=iife"},
	"static/keys.js":       {"js/pagekeys.ts", "--format=iife"},
}

// TestScriptIsFresh builds antirobot.js from its source, byte for byte as the committed files.
func TestScriptIsFresh(t *testing.T) {
	esbuild := servertest.Tool(t, "esbuild")
	for out, args := range scriptBuilds {
		cmd := exec.Command(esbuild, append(args, "--bundle", "--minify", "--target=es2022", "--charset=utf8", "--legal-comments=none")...)
		got, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		same(t, out, got)
	}
}

// TestScriptTypes checks the types of the source strictly, and that the committed declarations match the source.
func TestScriptTypes(t *testing.T) {
	tsc := filepath.Join(servertest.Module(t, "typescript"), "bin", "tsc")
	dir := t.TempDir()
	cmd := exec.Command("node", tsc, "-p", "js", "--noEmit", "false", "--declaration", "--emitDeclarationOnly", "--outDir", dir)
	if out, err := cmd.CombinedOutput(); err != nil { // also of what is wrong in the types, though the declarations are written
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	d, err := os.ReadFile(filepath.Join(dir, "antirobot.d.ts"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, filepath.Join("..", "npm", "antirobot.d.ts"), d)
}

// maxScript bounds the size of the script as transferred, with its dialog (docs/frontend.md has the figure).
const maxScript = 9_000

func TestScriptIsSmall(t *testing.T) {
	for out := range scriptBuilds {
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		var z bytes.Buffer
		w, _ := gzip.NewWriterLevel(&z, gzip.BestCompression)
		_, _ = w.Write(b)
		_ = w.Close()
		t.Logf("%s: %d bytes, %d gzipped", out, len(b), z.Len())
		if z.Len() > maxScript {
			t.Errorf("%s has %d bytes gzipped, more than %d", out, z.Len(), maxScript)
		}
	}
}
