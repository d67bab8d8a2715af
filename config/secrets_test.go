package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecretsThatOthersRead: a secret that others than the gateway can read is warned of, with its key, its file and its mode.
func TestSecretsThatOthersRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string, mode fs.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	warned := func(shared, check string) string {
		t.Helper()
		cfg, problems := Parse([]byte("store: {url: 'redis://127.0.0.1:1'}\nkeys: {secret_file: "+shared+"}\nlisten: []\n"+
			"check: {listen: ['127.0.0.1:1'], secret_file: "+check+"}\ndefaults: {upstream: {urls: ['http://127.0.0.1:3000']}}\n"), nil)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		return strings.Join(cfg.Warnings(), "\n")
	}
	if got := warned(at("a", 0o600), at("b", 0o400)); got != "" {
		t.Errorf("of files that nobody else reads: %s", got)
	}
	got := warned(at("c", 0o644), at("d", 0o604))
	for _, want := range []string{"keys.secret_file: " + dir + "/c has mode 0644: everybody", "check.secret_file: " + dir + "/d has mode 0604: everybody"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not among the warnings: %s", want, got)
		}
	}
	if otherReaders(0o640, true) != "" || otherReaders(0o640, false) == "" || otherReaders(0o600, false) != "" {
		t.Error("a group's right is the gateway's own only if the group is")
	}
}
