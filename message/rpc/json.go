package rpc

import (
	"bytes"
	"encoding/json"

	"antirobot/message"
	"antirobot/rules"
)

// maxBatch bounds the requests of a batch or of a multicall.
const maxBatch = 1000

// splitBatch returns the requests of a batch; false for a body that is none.
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

// decodeJSON reads {"service": …, "method": …, "id": …, "params": [{…}]}; params may be the struct itself.
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

// encodeJSON writes {"result":…,"id":…} or {"error":…,"id":…}. A notification of JSON-RPC 2.0 gets nothing.
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
		b.Truncate(b.Len() - 1) // the newline
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
