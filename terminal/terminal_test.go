package terminal

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := string(Escape([]byte(text))); got != want {
			t.Errorf("%q becomes %q, wanted %q", text, got, want)
		}
		if got := string(Escape([]byte(strings.Repeat("-", 13) + text + "-"))); got != strings.Repeat("-", 13)+want+"-" {
			t.Errorf("%q within others becomes %q", text, got)
		}
	}
	for _, text := range []string{"", "/catalogue/shoes", "a\tb\n", "/поиск/日本語/😀", "a\u00a0b\u200bc\u200d", "\x1b[31mrobot\x1b[0m", "\ufffd"} {
		f(text, text)
	}
	f("/\u009b31m", `/\u009b31m`)
	f("\u009d0;title\u009c", `\u009d0;title\u009c`)
	f("a\u0085b\u2028c\u2029", `a\u0085b\u2028c\u2029`)
	f("\u202egnp.exe", `\u202egnp.exe`)
	f("\u2066\u2069\u200f\u061c", `\u2066\u2069\u200f\u061c`)
	f("\x1b]52;c;x\a\r\x00\x7f", `\u001b]52;c;x\u0007\u000d\u0000\u007f`)
	f("\x1b[2J\x1b[m\x1b[31", `\u001b[2J\u001b[m\u001b[31`)
	f("\x1b[0031m", `\u001b[0031m`)
	f("a\x9bb\xff", `a\ufffdb\ufffd`)
	if text := []byte("plain"); &Escape(text)[0] != &text[0] {
		t.Error("what needs nothing is copied")
	}
	if n := testing.AllocsPerRun(100, func() { Escape([]byte("/catalogue")) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzEscape: what is escaped is obeyed nowhere, and strings of JSON keep their meaning.
func FuzzEscape(f *testing.F) {
	f.Add("/\u009b31m\u202e")
	f.Add("\x1b[31m\xff\x9b")
	f.Fuzz(func(t *testing.T, text string) {
		got := Escape([]byte(text))
		if again := Escape(got); !bytes.Equal(again, got) {
			t.Errorf("%q becomes %q, and then %q", text, got, again)
		}
		if !utf8.Valid(got) {
			t.Errorf("%q becomes %q", text, got)
		}
		line, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if json.Unmarshal(line, &before) != nil || json.Unmarshal(Escape(line), &after) != nil || before != after {
			t.Errorf("%q was %q and is %q", line, before, after)
		}
	})
}

func TestWriter(t *testing.T) {
	var to bytes.Buffer
	w := Writer(Writer(&to))
	if n, err := w.Write([]byte("a\u009bb\n")); n != 5 || err != nil || to.String() != `a\u009bb`+"\n" {
		t.Errorf("%d, %v, %q", n, err, to.String())
	}
	if _, ok := File(w); ok {
		t.Error("a buffer is a file")
	}
	if f, ok := File(Writer(os.Stdout)); !ok || f != os.Stdout {
		t.Error("a file is none")
	}
}
