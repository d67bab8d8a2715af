package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonReader reads values with bounds on depth and number.
type jsonReader struct {
	dec  *json.Decoder
	left int // values
}

var errTooMany = errors.New("too many values")

// parseJSON reads one value: nil, bool, int64, float64, string, []any or map[string]any, with nothing after it. Of a
// name that stands twice the last value counts.
func parseJSON(body []byte) (any, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the text is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff"))))
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

func (r *jsonReader) value(depth int) (any, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	if r.left--; r.left < 0 {
		return nil, errTooMany
	}
	switch t := tok.(type) {
	case json.Number:
		return number(t)
	case json.Delim:
		if depth++; depth > maxDepth {
			return nil, errors.New("values are too deep")
		}
		if t == '[' {
			return r.list(depth)
		}
		return r.object(depth)
	default:
		return tok, nil // nil, bool, string
	}
}

func number(n json.Number) (any, error) {
	text := n.String()
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, errors.New("a number is too big")
	}
	return f, nil
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
	_, err := r.dec.Token()
	return out, err
}

func (r *jsonReader) object(depth int) (any, error) {
	out := map[string]any{}
	for r.dec.More() {
		tok, err := r.dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := tok.(string)
		if !ok {
			return nil, errors.New("a name is not a text")
		}
		if out[name], err = r.value(depth); err != nil {
			return nil, err
		}
	}
	_, err := r.dec.Token()
	return out, err
}
