package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"antirobot/message"
	"antirobot/rules"
)

const (
	maxBatch  = 1000
	maxDepth  = 32
	maxValues = 20_000
)

var (
	errTooMany = errors.New("too many values")
	errTooDeep = errors.New("values are nested too deeply")
)

// parseJSON reads exactly one value: nil, bool, int64, float64, string, []any or map[string]any. The last of
// repeated names counts.
func parseJSON(body []byte) (v any, err error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the text is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff"))))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	left := maxValues
	return plain(v, 0, &left)
}

func plain(v any, depth int, left *int) (_ any, err error) {
	if *left--; *left < 0 {
		return nil, errTooMany
	}
	if depth > maxDepth {
		return nil, errTooDeep
	}
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case []any:
		for i := range v {
			if v[i], err = plain(v[i], depth+1, left); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range v {
			if v[name], err = plain(v[name], depth+1, left); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
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

func splitBatch(body []byte) ([]json.RawMessage, bool, error) {
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n")
	if len(body) == 0 || body[0] != '[' {
		return nil, false, nil
	}
	var batch []json.RawMessage
	switch err := json.Unmarshal(body, &batch); {
	case err != nil:
		return nil, false, badRequest("the request is not JSON: %v", err)
	case len(batch) == 0:
		return nil, false, badRequest("the batch is empty")
	case len(batch) > maxBatch:
		return nil, false, badRequest("the batch has %d requests, more than %d", len(batch), maxBatch)
	}
	return batch, true, nil
}

func decodeJSON(body []byte) (req request, err error) {
	v, err := parseJSON(body)
	if err != nil {
		return req, badRequest("the request is not JSON: %v", err)
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return req, badRequest("the request is %s, not a struct", message.TypeName(v))
	}
	var raw map[string]json.RawMessage // echoed as it came
	if err := json.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &raw); err != nil {
		return req, badRequest("the request is not JSON: %v", err)
	}
	req.id = raw["id"]
	req.second = fields["jsonrpc"] == "2.0"
	if req.method, ok = fields["method"].(string); !ok {
		return req, rules.Faultf(message.CodeCommand, "the request names no command")
	}
	if named, ok := fields["params"].(map[string]any); ok {
		req.params = named
		return req, nil
	}
	req.params, err = onlyStruct(fields["params"])
	return req, err
}

func onlyStruct(params any) (map[string]any, error) {
	list, ok := params.([]any)
	if !ok && params != nil {
		return nil, rules.Faultf(message.CodeType, "params is %s, not a list", message.TypeName(params))
	}
	switch len(list) {
	case 0:
		return map[string]any{}, nil
	case 1:
		if s, ok := list[0].(map[string]any); ok {
			return s, nil
		}
		return nil, rules.Faultf(message.CodeType, "the parameter is %s, not a struct", message.TypeName(list[0]))
	default:
		return nil, rules.Faultf(message.CodeType, "there are %d parameters, not one struct", len(list))
	}
}

// encodeJSON returns nothing for a notification of JSON-RPC 2.0.
func encodeJSON(req request, result map[string]any, fault *rules.Fault) []byte {
	id := req.id
	if id == nil && req.second && req.method != "" {
		return nil
	}
	if id == nil {
		id = []byte("null")
	}
	var b bytes.Buffer
	b.WriteByte('{')
	if req.second {
		b.WriteString(`"jsonrpc":"2.0",`)
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	write := func(v any) {
		if err := enc.Encode(v); err != nil {
			panic("BUG: an answer that JSON can't hold: " + err.Error())
		}
		b.Truncate(b.Len() - 1)
	}
	if fault != nil {
		b.WriteString(`"error":`)
		write(struct {
			Origin  string `json:"origin"`
			Code    int    `json:"code"`
			Message string `json:"message"`
		}{"Fault", fault.Code, fault.Text})
	} else {
		b.WriteString(`"result":`)
		write(result)
	}
	b.WriteString(`,"id":`)
	b.Write(id)
	b.WriteByte('}')
	return b.Bytes()
}

func multicalls(params any) ([]request, error) {
	list, _ := params.([]any)
	if len(list) != 1 {
		return nil, rules.Faultf(message.CodeType, "system.multicall takes one list of calls")
	}
	calls, ok := list[0].([]any)
	if !ok || len(calls) > maxBatch {
		return nil, rules.Faultf(message.CodeType, "system.multicall takes a list of at most %d calls", maxBatch)
	}
	out := make([]request, len(calls))
	for i, c := range calls {
		fields, _ := c.(map[string]any)
		out[i].method, ok = fields["methodName"].(string)
		if !ok {
			out[i].failed = rules.Faultf(message.CodeCommand, "the call names no command")
			continue
		}
		out[i].params, out[i].failed = onlyStruct(fields["params"])
	}
	return out, nil
}
