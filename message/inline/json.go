package inline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

func parseReadings(body []byte, named charsets, charset string) (out []any, err error) {
	texts, err := readings(string(body), named, charset)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(body) {
		texts = append(texts, strings.ToValidUTF8(string(body), ""))
	}
	var wrong error
	for _, text := range texts {
		v, err := parseJSON([]byte(text))
		if err != nil {
			wrong = err
			continue
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, wrong)
	}
	return out, nil
}

// point adds the values at a JSON pointer. Names are compared as folded does; a repeated name leads to each of its
// values, and a name applies to all elements of a list. A list or an object at the end yields everything in it.
func (f *found) point(v any, pointer string) {
	if pointer == "" {
		f.leaves(v)
		return
	}
	step, rest, more := strings.Cut(pointer[1:], "/")
	if more {
		rest = "/" + rest
	}
	step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
	switch v := v.(type) {
	case object:
		n := 0
		for _, m := range v {
			if step == "*" || folded(m.name) == folded(step) {
				before := len(f.values)
				f.point(m.value, rest)
				if len(f.values) > before {
					n++
				}
			}
		}
		f.twice = f.twice || n > 1 && step != "*"
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && strconv.Itoa(i) == step {
			if i < len(v) {
				f.point(v[i], rest)
			}
			return
		}
		for _, next := range v {
			if step == "*" {
				f.point(next, rest)
			} else {
				f.point(next, pointer)
			}
		}
	}
}

func (f *found) leaves(v any) {
	switch v := v.(type) {
	case string:
		f.values = append(f.values, v)
	case json.Number:
		f.values = append(f.values, v.String())
	case bool:
		f.values = append(f.values, strconv.FormatBool(v))
	case []any:
		for _, next := range v {
			f.leaves(next)
		}
	case object:
		for _, m := range v {
			f.leaves(m.value)
		}
	}
}

const (
	maxDepth  = 32
	maxValues = 20_000
)

// object keeps repeated names, since programs differ in which one they read.
type object []member

type member struct {
	name  string
	value any
}

// parseJSON reads exactly one value: nil, bool, json.Number, string, []any or object.
func parseJSON(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("the text is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	dec.UseNumber()
	r := jsonReader{dec, maxValues}
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

type jsonReader struct {
	dec  *json.Decoder
	left int
}

func (r *jsonReader) token() (json.Token, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return tok, nil
}

func (r *jsonReader) value(depth int) (any, error) {
	tok, err := r.token()
	if err != nil {
		return nil, err
	}
	if r.left--; r.left < 0 {
		return nil, errors.New("too many values")
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return tok, nil
	}
	if depth++; depth > maxDepth {
		return nil, errors.New("values are nested too deeply")
	}
	if open == '[' {
		return r.list(depth)
	}
	return r.object(depth)
}

func (r *jsonReader) list(depth int) (any, error) {
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

func (r *jsonReader) object(depth int) (any, error) {
	out := object{}
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
		out = append(out, member{name, v})
	}
	_, err := r.token()
	return out, err
}
