// Package terminal keeps what strangers have written from being obeyed by the terminals that show it. A path or a
// User-Agent may hold any character of Unicode; some of them a terminal, or a program that reads lines, takes for a
// command or for the end of a line: U+009B begins what changes colours and titles as ESC [ does, U+0085 and U+2028 end
// lines, U+202E has what follows written backwards.
package terminal

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// Escape returns text in which such characters are written as in JSON (\u009b): in a string of JSON they mean the same
// as before. Tabs, ends of lines and the colours that Escape finds as ESC [ 31 m stay. It returns text itself where
// nothing is to be escaped.
func Escape(text []byte) []byte {
	at := next(text, 0)
	if at == len(text) {
		return text
	}
	out, from := make([]byte, 0, len(text)+64), 0
	for at < len(text) {
		if n := colour(text[at:]); n > 0 {
			at = next(text, at+n)
			continue
		}
		r, n := utf8.DecodeRune(text[at:])
		out = fmt.Appendf(append(out, text[from:at]...), `\u%04x`, r)
		from = at + n
		at = next(text, from)
	}
	return append(out, text[from:]...)
}

// next returns where the next character is that is obeyed, from a place on; len(text) if there is none.
func next(text []byte, at int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for at < len(text) {
		for len(text)-at >= 8 { // eight bytes at a time, unless one is a control or no ASCII
			x := binary.LittleEndian.Uint64(text[at:])
			low, del := (x-ones*0x20)&^x, x^ones*0x7f
			if (x|low|(del-ones)&^del)&highs != 0 {
				break
			}
			at += 8
		}
		for end := min(at+8, len(text)); at < end; {
			if c := text[at]; ' ' <= c && c < 0x7f || c == '\n' || c == '\t' {
				at++
				continue
			}
			r, n := utf8.DecodeRune(text[at:])
			if obeyed(r, n) {
				return at
			}
			at += n
		}
	}
	return len(text)
}

// obeyed reports whether a character of a number of bytes is more than shown.
func obeyed(r rune, n int) bool {
	switch {
	case r < 0xa0, r == utf8.RuneError && n == 1:
		// controls, the others of ASCII have been left out; a lone byte may be one elsewhere
		return true
	case r == 0x61c, r == 0x200e, r == 0x200f, 0x2028 <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
		// lines, and directions of writing
		return true
	}
	return false
}

// colour returns how long a colour is that text begins with; 0: it begins with none.
func colour(text []byte) int {
	if len(text) < 4 || text[0] != 0x1b || text[1] != '[' {
		return 0
	}
	for i, c := range text[2:min(len(text), 5)] {
		switch {
		case c == 'm' && i > 0:
			return 3 + i
		case c < '0' || c > '9':
			return 0
		}
	}
	return 0
}

// writer escapes its output. Each Write holds whole characters.
type writer struct{ to io.Writer }

// Writer returns a writer to w that escapes. It is as safe for concurrent use as w.
func Writer(w io.Writer) io.Writer {
	if _, ok := w.(writer); ok {
		return w
	}
	return writer{w}
}

func (w writer) Write(text []byte) (int, error) {
	if _, err := w.to.Write(Escape(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// File returns the file that a writer writes to.
func File(w io.Writer) (*os.File, bool) {
	if e, ok := w.(writer); ok {
		w = e.to
	}
	f, ok := w.(*os.File)
	return f, ok
}
