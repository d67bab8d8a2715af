package inline

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"slices"
	"strings"
	"unicode/utf8"
)

// parseMultipart reads the fields of a form with files. A part is read under each name that it gives itself, as it
// stands and as its transfer encoding says, and whether or not it says that it is a file.
func parseMultipart(body []byte, boundary, named, charset string) (out fields, err error) {
	if boundary == "" {
		return nil, fmt.Errorf("%w: no boundary", ErrUnreadable)
	}
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 0; ; n++ {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		if n == maxParts {
			return nil, fmt.Errorf("%w: more than %d parts", ErrTooLarge, maxParts)
		}
		raw, err := io.ReadAll(part) // no longer than the body, whose length is bounded
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		names, file := partNames(part.Header["Content-Disposition"])
		_, params, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		var texts []string
		for _, value := range transferred(raw, part.Header.Get("Content-Transfer-Encoding")) {
			if file && !utf8.Valid(value) {
				texts = append(texts, printable(value))
				continue
			}
			more, err := readings(string(value), cmp.Or(params["charset"], named), charset)
			if err != nil {
				return nil, err
			}
			texts = append(texts, more...)
		}
		for _, name := range names {
			for _, text := range texts {
				out = append(out, field{name, text})
			}
		}
		if len(out) > maxFields {
			return nil, fmt.Errorf("%w: more than %d fields", ErrTooLarge, maxFields)
		}
	}
}

// partNames returns all names in the dispositions of a part, and whether it says that it is a file. Services differ in
// which name they take, and in what quotes mean.
func partNames(dispositions []string) (names []string, file bool) {
	for _, d := range dispositions {
		for d != "" {
			var piece string
			piece, d = untilSemicolon(d)
			key, value, ok := strings.Cut(piece, "=")
			if !ok {
				continue
			}
			key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
			if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(value[1 : len(value)-1])
			}
			switch {
			case key == "name*" || strings.HasPrefix(key, "name*"):
				if i := strings.LastIndexByte(value, '\''); i >= 0 {
					value = value[i+1:]
				}
				names = append(names, unescape(value))
			case key == "name":
				names = append(names, value)
			case strings.HasPrefix(key, "filename"):
				file = true
			}
		}
	}
	return slices.Compact(names), file
}

// untilSemicolon cuts s at the first semicolon outside of double quotes.
func untilSemicolon(s string) (piece, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quoted:
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ';' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// transferred returns a part both as it is and with its transfer encoding decoded: not every service decodes it.
func transferred(raw []byte, encoding string) [][]byte {
	var from io.Reader
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "base64":
		from = base64.NewDecoder(base64.StdEncoding, bytes.NewReader(raw))
	case "quoted-printable":
		from = quotedprintable.NewReader(bytes.NewReader(raw))
	default:
		return [][]byte{raw}
	}
	decoded, err := io.ReadAll(from)
	if err != nil && len(decoded) == 0 {
		return [][]byte{raw}
	}
	return [][]byte{raw, decoded}
}

// leastRun is the number of characters from which on a run in binary data is taken for text.
const leastRun = 8

// printable returns the runs of text in a file that is none: a few bytes before it must not hide it.
func printable(b []byte) string {
	var out []byte
	run, runes := 0, 0 // where the present run began, and its length
	for i := 0; i <= len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if n > 0 && (r != utf8.RuneError || n > 1) && (r >= ' ' || r == '\n' || r == '\t' || r == '\r') {
			runes++
			i += n
			continue
		}
		if runes >= leastRun {
			out = append(append(out, b[run:i]...), '\n')
		}
		i += max(n, 1)
		run, runes = i, 0
	}
	return string(out)
}
