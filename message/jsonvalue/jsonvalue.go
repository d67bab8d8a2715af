// Package jsonvalue reads JSON that a stranger sent: one value, bounded in depth and number, with everything that stands
// in it, repeated names included.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// These bound a text that is read.
const (
	MaxDepth  = 32     // of values within values
	MaxValues = 20_000 // of one text
)

// Object holds the members of a JSON object in their order. A name may occur more than once, and programs differ in
// which one they read.
type Object []Member

// Member is a name with its value.
type Member struct {
	Name  string
	Value any
}

// ErrTooMany is the error of a text with more than MaxValues values.
var ErrTooMany = errors.New("too many values")

// Parse reads one value with nothing after it: nil, bool, json.Number, string, []any or Object. A byte order mark before
// it is skipped. The value owns its texts.
func Parse(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("the text is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	dec.UseNumber()
	r := reader{dec, MaxValues}
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

type reader struct {
	dec  *json.Decoder
	left int // values
}

func (r *reader) token() (json.Token, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return tok, nil
}

func (r *reader) value(depth int) (any, error) {
	tok, err := r.token()
	if err != nil {
		return nil, err
	}
	if r.left--; r.left < 0 {
		return nil, ErrTooMany
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return tok, nil
	}
	if depth++; depth > MaxDepth {
		return nil, errors.New("values are nested too deeply")
	}
	if open == '[' {
		return r.list(depth)
	}
	return r.object(depth)
}

func (r *reader) list(depth int) (any, error) {
	out := []any{}
	for r.dec.More() {
		v, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := r.token()
	return out, err
}

func (r *reader) object(depth int) (any, error) {
	out := Object{}
	for r.dec.More() {
		tok, err := r.token()
		if err != nil {
			return nil, err
		}
		name, ok := tok.(string)
		if !ok {
			return nil, errors.New("a name is not a text")
		}
		v, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, Member{name, v})
	}
	_, err := r.token()
	return out, err
}
