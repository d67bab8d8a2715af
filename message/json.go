package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"antirobot/rules"
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

// decodeJSON reads {"service": …, "method": …, "id": …, "params": [{…}]}.
func decodeJSON(body []byte) (req request, err error) {
	v, err := parseJSON(body)
	if err != nil {
		return req, badRequest("the request is not JSON: %v", err)
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return req, badRequest("the request is %s, not a struct", typeName(v))
	}
	var raw map[string]json.RawMessage // the id is repeated as it came
	if err := json.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &raw); err != nil {
		return req, badRequest("the request is not JSON: %v", err)
	}
	req.id = raw["id"]
	if req.method, ok = fields["method"].(string); !ok {
		return req, rules.Faultf(CodeCommand, "the request names no command")
	}
	req.params, err = onlyStruct(fields["params"])
	return req, err
}

// onlyStruct returns the struct that the parameters are; none at all is an empty one.
func onlyStruct(params any) (map[string]any, error) {
	list, ok := params.([]any)
	if !ok && params != nil {
		return nil, rules.Faultf(CodeType, "params is %s, not a list", typeName(params))
	}
	switch len(list) {
	case 0:
		return map[string]any{}, nil
	case 1:
		if s, ok := list[0].(map[string]any); ok {
			return s, nil
		}
		return nil, rules.Faultf(CodeType, "the parameter is %s, not a struct", typeName(list[0]))
	default:
		return nil, rules.Faultf(CodeType, "there are %d parameters, not one struct", len(list))
	}
}

// encodeJSON writes {"result":…,"id":…} or {"error":…,"id":…}.
func encodeJSON(id []byte, result map[string]any, fault *rules.Fault) []byte {
	if id == nil {
		id = []byte("null")
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	write := func(v any) {
		if err := enc.Encode(v); err != nil {
			panic("BUG: an answer that JSON can't hold: " + err.Error())
		}
		b.Truncate(b.Len() - 1) // the newline
	}
	if fault != nil {
		b.WriteString(`{"error":`)
		write(struct {
			Origin  string `json:"origin"`
			Code    int    `json:"code"`
			Message string `json:"message"`
		}{"Fault", fault.Code, fault.Text})
	} else {
		b.WriteString(`{"result":`)
		write(result)
	}
	b.WriteString(`,"id":`)
	b.Write(id)
	b.WriteByte('}')
	return b.Bytes()
}
