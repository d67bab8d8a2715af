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
	"antirobot/rules"
)

type element struct {
	name string
	text []byte // without that of nested elements
	in   []*element
}

var errXML = errors.New("an element is not where XML-RPC has it")

// parseXML reads a document with elements and text only: no document types, so no entities beyond the five of XML.
func parseXML(body []byte) (*element, error) {
	dec := xml.NewDecoder(bytes.NewReader(body))
	document := new(element)
	open := []*element{document}
	for elements := 0; ; {
		tok, err := dec.RawToken()
		at := open[len(open)-1]
		switch t := tok.(type) {
		case nil:
			if !errors.Is(err, io.EOF) {
				return nil, err
			}
			if len(open) > 1 || len(document.in) != 1 || !blank(document) {
				return nil, errXML
			}
			return document.in[0], nil
		case xml.StartElement:
			if elements++; elements > 4*maxValues || len(open) > 4*maxDepth {
				return nil, errTooMany
			}
			e := &element{name: t.Name.Local}
			at.in, open = append(at.in, e), append(open, e)
		case xml.EndElement:
			if at.name != t.Name.Local || len(open) == 1 {
				return nil, errXML
			}
			open = open[:len(open)-1]
		case xml.CharData:
			at.text = append(at.text, t...)
		case xml.ProcInst:
			if t.Target != "xml" {
				return nil, errors.New("processing instructions are not allowed")
			}
		case xml.Directive:
			return nil, errors.New("document types are not allowed")
		}
	}
}

func blank(e *element) bool { return len(bytes.TrimSpace(e.text)) == 0 }

func (e *element) parts(names ...string) ([]*element, error) {
	ok := blank(e) && slices.EqualFunc(e.in, names, func(in *element, name string) bool { return in.name == name })
	if !ok {
		return nil, errXML
	}
	return e.in, nil
}

func (e *element) each(name string, f func(*element) error) error {
	if !blank(e) {
		return errXML
	}
	for _, in := range e.in {
		if in.name != name {
			return errXML
		}
		if err := f(in); err != nil {
			return err
		}
	}
	return nil
}

func decodeXML(body []byte) (req request, err error) {
	if !utf8.Valid(body) {
		return req, badRequest("the request is not UTF-8")
	}
	params, err := methodCall(bytes.TrimPrefix(body, []byte("\ufeff")), &req)
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

func methodCall(body []byte, req *request) (params any, err error) {
	call, err := parseXML(body)
	if err != nil {
		return nil, err
	}
	if call.name != "methodCall" || !blank(call) || len(call.in) == 0 || call.in[0].name != "methodName" ||
		len(call.in[0].in) > 0 {
		return nil, errXML
	}
	req.method = string(bytes.TrimSpace(call.in[0].text))
	list := []any{}
	call.in = call.in[1:]
	left := maxValues
	err = call.each("params", func(params *element) error {
		return params.each("param", func(e *element) error {
			value, err := e.parts("value")
			if err != nil {
				return err
			}
			v, err := value[0].value(0, &left)
			list = append(list, v)
			return err
		})
	})
	return list, err
}

func (e *element) value(depth int, left *int) (any, error) {
	if *left--; *left < 0 {
		return nil, errTooMany
	}
	if depth++; depth > maxDepth {
		return nil, errTooDeep
	}
	switch {
	case len(e.in) == 0:
		return string(e.text), nil
	case len(e.in) > 1 || !blank(e):
		return nil, errXML
	}
	switch in := e.in[0]; in.name {
	case "struct":
		out := map[string]any{}
		return out, in.each("member", func(m *element) error {
			parts, err := m.parts("name", "value")
			if err != nil || len(parts[0].in) > 0 {
				return errXML
			}
			out[string(parts[0].text)], err = parts[1].value(depth, left)
			return err
		})
	case "array":
		data, err := in.parts("data")
		if err != nil {
			return nil, err
		}
		out := []any{}
		err = data[0].each("value", func(v *element) error {
			one, err := v.value(depth, left)
			out = append(out, one)
			return err
		})
		return out, err
	default:
		if len(in.in) > 0 {
			return nil, errXML
		}
		return scalar(in.name, string(in.text))
	}
}

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

type xmlDate string

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

// appendEscaped replaces characters that XML can't hold by U+FFFD.
func appendEscaped(b []byte, s string) []byte {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(s))
	return append(b, out.Bytes()...)
}
