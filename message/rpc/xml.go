package rpc

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"antirobot/message"
	"antirobot/message/jsonvalue"
	"antirobot/rules"
)

// xmlReader reads XML-RPC: elements and text alone. There are no document types, so there are no entities but the five
// of XML, and nothing is ever fetched.
type xmlReader struct {
	dec  *xml.Decoder
	left int // values
}

var errXML = errors.New("an element is not where XML-RPC has it")

// next returns the next start or end element and the text before it.
func (r *xmlReader) next() (tok xml.Token, text []byte, err error) {
	for {
		t, err := r.dec.RawToken()
		if err != nil {
			return nil, nil, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			return t.Copy(), text, nil
		case xml.EndElement:
			return t, text, nil
		case xml.CharData:
			text = append(text, t...)
		case xml.Comment:
		case xml.ProcInst:
			if t.Target != "xml" {
				return nil, nil, errors.New("processing instructions are not allowed")
			}
		default:
			return nil, nil, errors.New("document types are not allowed")
		}
	}
}

// open reads the start of an element of one of the names, with only white space before it. An end element instead gives
// an empty name.
func (r *xmlReader) open(parent string, names ...string) (string, error) {
	tok, text, err := r.next()
	if err != nil {
		return "", err
	}
	if len(bytes.TrimSpace(text)) > 0 {
		return "", errXML
	}
	switch t := tok.(type) {
	case xml.StartElement:
		if len(names) == 0 || slices.Contains(names, t.Name.Local) {
			return t.Name.Local, nil
		}
	case xml.EndElement:
		if t.Name.Local == parent {
			return "", nil
		}
	}
	return "", errXML
}

// must reads the start of the element name.
func (r *xmlReader) must(name string) error {
	got, err := r.open("", name)
	if err == nil && got == "" {
		return errXML
	}
	return err
}

// close reads text and the end of the element name.
func (r *xmlReader) close(name string) (string, error) {
	tok, text, err := r.next()
	if err != nil {
		return "", err
	}
	if end, ok := tok.(xml.EndElement); !ok || end.Name.Local != name {
		return "", errXML
	}
	return string(text), nil
}

// end reads the end of the element name, with only white space before it.
func (r *xmlReader) end(name string) error {
	text, err := r.close(name)
	if err == nil && strings.TrimSpace(text) != "" {
		return errXML
	}
	return err
}

// decodeXML reads a methodCall.
func decodeXML(body []byte) (req request, err error) {
	if !utf8.Valid(body) {
		return req, badRequest("the request is not UTF-8")
	}
	r := xmlReader{xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff")))), jsonvalue.MaxValues}
	params, err := r.methodCall(&req)
	if err != nil {
		return req, badRequest("the request is not XML-RPC: %v", err)
	}
	if req.method == "system.multicall" {
		req.calls, err = multicalls(params)
		return req, err
	}
	req.params, err = onlyStruct(params)
	return req, err
}

func (r *xmlReader) methodCall(req *request) (params any, err error) {
	if err := r.must("methodCall"); err != nil {
		return nil, err
	}
	if err := r.must("methodName"); err != nil {
		return nil, err
	}
	name, err := r.close("methodName")
	if err != nil {
		return nil, err
	}
	req.method = strings.TrimSpace(name)
	list := []any{}
	switch got, err := r.open("methodCall", "params"); {
	case err != nil:
		return nil, err
	case got == "params":
		if list, err = r.params(); err != nil {
			return nil, err
		}
		if err := r.end("methodCall"); err != nil {
			return nil, err
		}
	}
	if _, _, err := r.next(); !errors.Is(err, io.EOF) {
		return nil, errXML
	}
	return list, nil
}

func (r *xmlReader) params() ([]any, error) {
	list := []any{}
	for {
		name, err := r.open("params", "param")
		if err != nil || name == "" {
			return list, err
		}
		if err := r.must("value"); err != nil {
			return nil, err
		}
		v, err := r.value(0)
		if err != nil {
			return nil, err
		}
		if err := r.end("param"); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
}

// value reads what is in a value element, and its end. Without a type it is a text.
func (r *xmlReader) value(depth int) (v any, err error) {
	if r.left--; r.left < 0 {
		return nil, jsonvalue.ErrTooMany
	}
	if depth++; depth > jsonvalue.MaxDepth {
		return nil, errors.New("values are nested too deeply")
	}
	tok, text, err := r.next()
	if err != nil {
		return nil, err
	}
	start, ok := tok.(xml.StartElement)
	if !ok {
		if end, ok := tok.(xml.EndElement); !ok || end.Name.Local != "value" {
			return nil, errXML
		}
		return string(text), nil
	}
	if len(bytes.TrimSpace(text)) > 0 {
		return nil, errXML
	}
	switch start.Name.Local {
	case "struct":
		v, err = r.object(depth)
	case "array":
		v, err = r.array(depth)
	default:
		var content string
		if content, err = r.close(start.Name.Local); err == nil {
			v, err = scalar(start.Name.Local, content)
		}
	}
	if err != nil {
		return nil, err
	}
	return v, r.end("value")
}

// scalar reads a value of a simple type.
func scalar(kind, content string) (any, error) {
	trimmed := strings.TrimSpace(content)
	switch kind {
	case "string":
		return content, nil
	case "i4", "int", "i8", "i2", "i1":
		n, err := strconv.ParseInt(strings.TrimPrefix(trimmed, "+"), 10, 64)
		if err != nil {
			return nil, errors.New("a number is not right")
		}
		return n, nil
	case "boolean":
		if trimmed != "0" && trimmed != "1" {
			return nil, errors.New("a boolean is neither 0 nor 1")
		}
		return trimmed == "1", nil
	case "double":
		f, err := strconv.ParseFloat(trimmed, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, errors.New("a double is not right")
		}
		return f, nil
	case "base64":
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(content), ""))
		if err != nil {
			return nil, errors.New("base64 is not right")
		}
		return b, nil
	case "dateTime.iso8601":
		return xmlDate(trimmed), nil
	case "nil":
		if trimmed != "" {
			return nil, errXML
		}
		return nil, nil
	}
	return nil, errors.New("there is no type " + rules.Clip(kind, 32))
}

// xmlDate is a date, which no parameter takes: its type keeps it apart from texts.
type xmlDate string

func (r *xmlReader) object(depth int) (any, error) {
	out := map[string]any{}
	for {
		got, err := r.open("struct", "member")
		if err != nil || got == "" {
			return out, err
		}
		if err := r.must("name"); err != nil {
			return nil, err
		}
		name, err := r.close("name")
		if err != nil {
			return nil, err
		}
		if err := r.must("value"); err != nil {
			return nil, err
		}
		if out[name], err = r.value(depth); err != nil {
			return nil, err
		}
		if err := r.end("member"); err != nil {
			return nil, err
		}
	}
}

func (r *xmlReader) array(depth int) (any, error) {
	if err := r.must("data"); err != nil {
		return nil, err
	}
	out := []any{}
	for {
		got, err := r.open("data", "value")
		if err != nil {
			return nil, err
		}
		if got == "" {
			return out, r.end("array")
		}
		v, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
}

// encodeXML writes a methodResponse.
func encodeXML(result any, fault *rules.Fault) []byte {
	b := []byte("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<methodResponse>")
	if fault != nil {
		b = append(b, "<fault>"...)
		b = appendXML(b, map[string]any{"faultCode": int64(fault.Code), "faultString": fault.Text})
		return append(b, "</fault></methodResponse>\n"...)
	}
	b = append(b, "<params><param>"...)
	b = appendXML(b, result)
	return append(b, "</param></params></methodResponse>\n"...)
}

func appendXML(b []byte, v any) []byte {
	b = append(b, "<value>"...)
	switch v := v.(type) {
	case nil:
		b = append(b, "<nil/>"...)
	case string:
		b = append(b, "<string>"...)
		b = append(appendEscaped(b, v), "</string>"...)
	case bool:
		if v {
			b = append(b, "<boolean>1</boolean>"...)
		} else {
			b = append(b, "<boolean>0</boolean>"...)
		}
	case int64:
		tag := "int"
		if v != int64(int32(v)) {
			tag = "i8"
		}
		b = append(strconv.AppendInt(append(append(append(b, '<'), tag...), '>'), v, 10), "</"+tag+">"...)
	case float64:
		b = append(strconv.AppendFloat(append(b, "<double>"...), v, 'f', -1, 64), "</double>"...)
	case []any:
		b = append(b, "<array><data>"...)
		for _, e := range v {
			b = appendXML(b, e)
		}
		b = append(b, "</data></array>"...)
	case map[string]any:
		b = append(b, "<struct>"...)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = append(appendEscaped(append(b, "<member><name>"...), name), "</name>"...)
			b = append(appendXML(b, v[name]), "</member>"...)
		}
		b = append(b, "</struct>"...)
	default:
		panic("BUG: an answer that XML-RPC can't hold: " + message.TypeName(v))
	}
	return append(b, "</value>"...)
}

// appendEscaped writes s as text of an element. What XML can't hold becomes U+FFFD; a return would come back as a newline
// if it were not spelt out.
func appendEscaped(b []byte, s string) []byte {
	for _, r := range s {
		switch {
		case r == '&':
			b = append(b, "&amp;"...)
		case r == '<':
			b = append(b, "&lt;"...)
		case r == '>':
			b = append(b, "&gt;"...)
		case r == '\r':
			b = append(b, "&#13;"...)
		case r < 0x20 && r != '\t' && r != '\n' || r == 0xfffe || r == 0xffff:
			b = append(b, "\ufffd"...)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}
