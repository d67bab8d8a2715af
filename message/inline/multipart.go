package inline

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"antirobot/rules"
)

// parseMultipart reads a form with files. A part is read under each of its names, raw and decoded, whether or not
// it is declared as a file.
//
// A boundary where no parts are cut (in a line that ends differently, or after the last part) is unreadable:
// services differ in whether it cuts there.
func parseMultipart(body []byte, boundary string, named charsets, charset string) (out fields, err error) {
	if !validBoundary(boundary) {
		return nil, fmt.Errorf("%w: boundary %q", ErrUnreadable, rules.Clip(boundary, 70))
	}
	parts, err := cutParts(body, boundary)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		for _, name := range p.names {
			if name == charsetField {
				if named, err = named.and(string(p.raw)); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, p := range parts {
		texts, err := p.texts(named, charset)
		if err != nil {
			return nil, err
		}
		for _, name := range p.names {
			for _, text := range texts {
				out = append(out, field{name, text})
			}
		}
		if len(out) > maxFields {
			return nil, fmt.Errorf("%w: more than %d fields", ErrTooLarge, maxFields)
		}
	}
	return out, nil
}

type formPart struct {
	names    []string
	file     bool
	raw      []byte
	charsets []string
	encoding string
	odd      string // why services may differ in reading it; empty: they agree
}

func cutParts(body []byte, boundary string) (parts []formPart, err error) {
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		if len(parts) == maxParts {
			return nil, fmt.Errorf("%w: more than %d parts", ErrTooLarge, maxParts)
		}
		p := formPart{}
		if p.raw, err = io.ReadAll(part); err != nil { // no longer than the body
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		if p.head(part.Header); p.odd != "" {
			return nil, fmt.Errorf("%w: %s", ErrUnreadable, p.odd)
		}
		parts = append(parts, p)
	}
	if bytes.Count(body, []byte("--"+boundary)) != len(parts)+1 {
		return nil, fmt.Errorf("%w: the boundary occurs where it cuts no parts", ErrUnreadable)
	}
	return parts, nil
}

// boundaryBytes are those of RFC 2046 on which services agree; at a comma the boundary ends for Rack.
const boundaryBytes = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'()+_-./:=? "

func validBoundary(b string) bool {
	return b != "" && len(b) <= 70 && b[len(b)-1] != ' ' && strings.TrimLeft(b, boundaryBytes) == ""
}

// head reads the fields of a part, whatever surrounds their names. Rack takes the Content-ID of a part without a
// name.
func (p *formPart) head(fields textproto.MIMEHeader) {
	var ids []string
	for name, values := range fields {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "content-disposition":
			var odd string
			p.names, p.file, odd = partNames(values)
			p.odd = cmp.Or(p.odd, odd)
		case "content-id":
			ids = values
		case "content-type":
			for _, v := range values {
				p.charsets = append(p.charsets, namedCharsets(v)...)
				if strings.Contains(strings.ToLower(v), "multipart/") {
					p.odd = "a part that has parts"
				}
			}
		case "content-encoding":
			p.odd = "a part that is compressed"
		case "content-transfer-encoding":
			p.encoding = strings.ToLower(strings.Join(values, " "))
		}
	}
	p.names = append(p.names, ids...)
}

func (p *formPart) texts(named charsets, charset string) (out []string, err error) {
	for _, name := range p.charsets {
		if named, err = named.and(name); err != nil {
			return nil, err
		}
	}
	for _, value := range transferred(p.raw, p.encoding) {
		if p.file && !utf8.Valid(value) {
			if out = append(out, printable(value)); len(named) == 0 {
				continue
			}
		}
		more, err := readings(string(value), named, charset)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// partNames returns all names that services may give a part, whether it is declared as a file, and why they may
// differ: in which name they take, in quoting, and in decoding.
func partNames(dispositions []string) (names []string, file bool, odd string) {
	var pieces nameInPieces
	filename := ""
	for _, d := range dispositions {
		for key, value := range parameters(d) {
			switch {
			case strings.HasPrefix(key, "name*"):
				if charset, _, ok := strings.Cut(value, "'"); ok && !plainCharset(charset) {
					odd = "a name in another charset"
				}
				if i := strings.LastIndexByte(value, '\''); i >= 0 {
					value = value[i+1:]
				}
				names = append(names, unescape(value))
				pieces.add(key, unescape(value))
			case key == "name":
				names = append(names, value, strings.ReplaceAll(value, `\`, ""), unescape(value))
				word, err := new(mime.WordDecoder).DecodeHeader(value)
				if err != nil {
					odd = "a name in a word that is encoded in another way"
				}
				names = append(names, word)
			case key == "filename" && value != "": // some read filename* and an empty name as none
				file, filename = true, value
			}
		}
		for key, value := range parameters(bareParameters.Replace(d)) { // Rack looks inside quotes, too
			if key == "name" {
				names = append(names, value)
			}
		}
		for _, m := range wherever.FindAllStringSubmatch(d, -1) {
			names = append(names, m[1]+m[2])
		}
	}
	if len(names) == 0 && file { // as Rack does
		names = append(names, filename)
	}
	slices.Sort(names)
	return slices.Compact(append(names, pieces.came.String(), pieces.counted())), file, odd
}

// wherever is how formidable finds a name.
var wherever = regexp.MustCompile(`(?i)\bname=(?:"([^"]*)"|([^()<>@,;:\\"/\[\]?={}\s]+))`)

// plainCharset reports whether all services read ASCII alike in a charset.
func plainCharset(name string) bool {
	return slices.Contains([]string{"", "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1"},
		strings.ToLower(strings.Trim(name, `" `)))
}

// nameInPieces is a name in several parameters (RFC 2231), which some services join as they come, and others by
// number.
type nameInPieces struct {
	came  strings.Builder
	pairs []numbered
}

type numbered struct {
	n    int
	text string
}

func (p *nameInPieces) add(key, text string) {
	p.came.WriteString(text)
	if n, err := strconv.Atoi(strings.Trim(strings.TrimPrefix(key, "name"), "*")); err == nil {
		p.pairs = append(p.pairs, numbered{n, text})
	}
}

func (p *nameInPieces) counted() string {
	var name strings.Builder
	slices.SortStableFunc(p.pairs, func(a, b numbered) int { return cmp.Compare(a.n, b.n) })
	for _, pair := range p.pairs {
		name.WriteString(pair.text)
	}
	return name.String()
}

var (
	unquoted = strings.NewReplacer(`\\`, `\`, `\"`, `"`) // between quotes
	// for services that know neither quotes nor escapes
	bareParameters = strings.NewReplacer(`"`, "", `\`, "", ",", ";")
)

func parameters(s string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for s != "" {
			var piece string
			piece, s = untilSemicolon(s)
			key, value, ok := strings.Cut(piece, "=")
			if !ok {
				continue
			}
			key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
			if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = unquoted.Replace(value[1 : len(value)-1])
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

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

func transferred(raw []byte, encoding string) [][]byte {
	out := [][]byte{raw}
	if strings.Contains(encoding, "base64") {
		out = append(out, looseBase64(raw))
	}
	if strings.Contains(encoding, "quoted-printable") {
		if decoded, err := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(raw))); err == nil || len(decoded) > 0 {
			out = append(out, decoded)
		}
	}
	return out
}

// looseBase64 skips foreign bytes and continues after padding, as some services do.
func looseBase64(raw []byte) (out []byte) {
	raw = bytes.Map(func(r rune) rune {
		if r == '=' || r == '+' || r == '/' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return -1
	}, raw)
	for piece := range bytes.SplitSeq(raw, []byte("=")) {
		if len(piece)%4 == 1 { // six bits are no byte
			piece = piece[:len(piece)-1]
		}
		out, _ = base64.RawStdEncoding.AppendDecode(out, piece)
	}
	return out
}

const leastRun = 8

// printable returns the text within binary data: a few bytes in front must not hide it.
func printable(b []byte) string {
	var out []byte
	run, runes := 0, 0
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
