package rpc

import (
	"bytes"
	"encoding/json"

	"antirobot/message"
	"antirobot/rules"
)

// decodeJSON reads {"service": …, "method": …, "id": …, "params": [{…}]}.
func decodeJSON(body []byte) (req request, err error) {
	v, err := parseJSON(body)
	if err != nil {
		return req, badRequest("the request is not JSON: %v", err)
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return req, badRequest("the request is %s, not a struct", message.TypeName(v))
	}
	var raw map[string]json.RawMessage // the id is repeated as it came
	if err := json.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &raw); err != nil {
		return req, badRequest("the request is not JSON: %v", err)
	}
	req.id = raw["id"]
	if req.method, ok = fields["method"].(string); !ok {
		return req, rules.Faultf(message.CodeCommand, "the request names no command")
	}
	req.params, err = onlyStruct(fields["params"])
	return req, err
}

// onlyStruct returns the struct that the parameters are; none at all is an empty one.
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
