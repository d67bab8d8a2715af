package frames

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden file")

const mostPayload = 1 << 10

// readAll returns the payloads of a file, and how often it was damaged.
func readAll(t testing.TB, file []byte) (payloads []string, damaged int) {
	t.Helper()
	for r := NewReader(bytes.NewReader(file), mostPayload); ; {
		payload, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return payloads, damaged
		case errors.Is(err, ErrDamaged):
			damaged++
		case err != nil:
			t.Fatal(err)
		case len(payload) == 0:
			t.Fatal("an empty payload")
		default:
			payloads = append(payloads, string(payload))
		}
	}
}

var sample = []string{"a", "a payload with the " + mark + " of a frame", string(make([]byte, mostPayload)), "last"}

func sampleFile() (file []byte) {
	for _, p := range sample {
		file = Append(file, []byte(p))
	}
	return file
}

// TestGolden: files of earlier builds stay readable.
func TestGolden(t *testing.T) {
	name := filepath.Join("testdata", "golden.frames")
	if *update {
		if err := os.WriteFile(name, sampleFile(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(file, sampleFile()) {
		t.Errorf("the format has changed, %v", err)
	}
	if got, damaged := readAll(t, file); len(got) != len(sample) || damaged > 0 {
		t.Errorf("read %d payloads of %d, %d damaged", len(got), len(sample), damaged)
	}
}

// TestDamage: a cut or a changed byte costs its own payload alone.
func TestDamage(t *testing.T) {
	file := sampleFile()
	for i := range file {
		changed := bytes.Clone(file)
		changed[i] ^= 0x55
		got, damaged := readAll(t, changed)
		if len(got) < len(sample)-1 || damaged == 0 || i < len(file)-20 && got[len(got)-1] != "last" {
			t.Fatalf("byte %d changed: %d payloads, %d damaged", i, len(got), damaged)
		}
		if got, _ := readAll(t, file[:i]); len(got) > 0 && got[0] != "a" {
			t.Fatalf("cut at %d: %q", i, got)
		}
	}
}

// FuzzReader: no file makes the reader fail, and intact frames behind damage are found.
func FuzzReader(f *testing.F) {
	f.Add([]byte(mark), []byte("x"))
	f.Add(sampleFile()[:20], []byte{0})
	f.Fuzz(func(t *testing.T, head, payload []byte) {
		if len(payload) == 0 || len(payload) > mostPayload {
			return
		}
		readAll(t, head)
		got, _ := readAll(t, Append(nil, payload))
		if len(got) != 1 || got[0] != string(payload) {
			t.Fatalf("%q became %q", payload, got)
		}
	})
}

// TestReplace: the file is replaced as a whole or not at all.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path, failed := filepath.Join(dir, "file"), errors.New("failed")
	write := func(text string, err error) error {
		return Replace(path, func(w io.Writer) error {
			_, _ = io.WriteString(w, text) // the error of the test comes later
			return err
		})
	}
	if err := write("first", nil); err != nil {
		t.Fatal(err)
	}
	if err := write("second", failed); !errors.Is(err, failed) {
		t.Errorf("Replace: %v", err)
	}
	left, err := os.ReadFile(path)
	if err != nil || string(left) != "first" {
		t.Errorf("the file has %q, %v", left, err)
	}
	if files, err := fs.Glob(os.DirFS(dir), ".*"); err != nil || len(files) > 0 {
		t.Errorf("left over: %q, %v", files, err)
	}
}
