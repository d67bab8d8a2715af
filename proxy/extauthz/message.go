package extauthz

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"

	"antirobot/request"
)

// Field numbers from external_auth.proto, attribute_context.proto, config/core/v3/base.proto and
// google/rpc/status.proto.
const (
	checkAttributes = 1 // CheckRequest

	attributesRequest = 4 // AttributeContext
	requestHTTP       = 2 // AttributeContext.Request

	httpMethod    = 2 // AttributeContext.HttpRequest
	httpHeaders   = 3
	httpPath      = 4
	httpHost      = 5
	httpSize      = 9
	httpBody      = 11
	httpRawBody   = 12
	httpHeaderMap = 13

	mapHeaders  = 1 // HeaderMap
	headerKey   = 1 // and an entry of HttpRequest.headers
	headerValue = 2
	headerRaw   = 3

	answerStatus = 1 // CheckResponse
	answerDenied = 2
	answerOK     = 3
	statusCode   = 1 // google.rpc.Status, and HttpStatus

	deniedStatus  = 1 // DeniedHttpResponse
	deniedHeaders = 2
	deniedBody    = 3
	okHeaders     = 2 // OkHttpResponse
	okRemove      = 5
	okResponse    = 6

	optionHeader = 1 // HeaderValueOption
	optionAppend = 2
	boolValue    = 1
)

// question is Envoy's description of a request. Borrowed.
type question struct {
	method, path, host, body []byte
	size                     int64 // announced; 0 or less: unknown
	fields                   []request.Field
	raw                      bool // from header_map, which keeps repeated fields
	many                     bool // more fields than a request may have
}

// each calls f for each field of a message until one is broken or f returns false; text is nil for numbers.
func each(p []byte, f func(num protowire.Number, text []byte, n uint64) bool) bool {
	for len(p) > 0 {
		num, kind, size := protowire.ConsumeTag(p)
		if size < 0 {
			return false
		}
		p = p[size:]
		var text []byte
		var n uint64
		switch kind {
		case protowire.BytesType:
			if text, size = protowire.ConsumeBytes(p); text == nil {
				text = []byte{}
			}
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(p)
		default:
			size = protowire.ConsumeFieldValue(num, kind, p)
		}
		if size < 0 || !f(num, text, n) {
			return false
		}
		p = p[size:]
	}
	return true
}

// within calls f for each message in the fields num of p.
func within(p []byte, num protowire.Number, f func(p []byte) bool) bool {
	return each(p, func(n protowire.Number, text []byte, _ uint64) bool { return n != num || text == nil || f(text) })
}

// read reads a CheckRequest; false: malformed. Fields beyond maxFields only set many: a failed call may pass.
func (q *question) read(p []byte, maxFields int) bool {
	fields := q.fields[:0]
	*q = question{}
	q.fields = fields
	return within(p, checkAttributes, func(p []byte) bool {
		return within(p, attributesRequest, func(p []byte) bool {
			return within(p, requestHTTP, func(p []byte) bool { return q.readHTTP(p, maxFields) })
		})
	})
}

func (q *question) readHTTP(p []byte, maxFields int) bool {
	return each(p, func(num protowire.Number, text []byte, n uint64) bool {
		switch num {
		case httpMethod:
			q.method = text
		case httpPath:
			q.path = text
		case httpHost:
			q.host = text
		case httpSize:
			q.size = int64(n)
		case httpBody, httpRawBody:
			if len(text) > 0 {
				q.body = text
			}
		case httpHeaders:
			return q.raw || q.addField(text, maxFields)
		case httpHeaderMap:
			if !q.raw {
				q.raw, q.many, q.fields = true, false, q.fields[:0]
			}
			return within(text, mapHeaders, func(p []byte) bool { return q.addField(p, maxFields) })
		}
		return true
	})
}

func (q *question) addField(p []byte, maxFields int) bool {
	var f request.Field
	ok := each(p, func(num protowire.Number, text []byte, _ uint64) bool {
		switch num {
		case headerKey:
			f.Name = text
		case headerValue, headerRaw:
			if len(text) > 0 {
				f.Value = bytes.Trim(text, " \t")
			}
		}
		return true
	})
	if q.many = q.many || len(q.fields) == maxFields; !q.many {
		q.fields = append(q.fields, f)
	}
	return ok
}

func appendMessage(dst []byte, num protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, num, protowire.BytesType), m)
}

func appendNumber(dst []byte, num protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.VarintType), n)
}

// appendOption appends a HeaderValueOption; beside: added to fields of the name, otherwise replacing them.
func appendOption(dst []byte, num protowire.Number, name, value []byte, beside bool) []byte {
	pair := appendMessage(nil, headerKey, name)
	pair = appendMessage(pair, headerValue, bytes.ToValidUTF8(value, []byte("?")))
	option := appendMessage(nil, optionHeader, pair)
	if beside {
		option = appendMessage(option, optionAppend, appendNumber(nil, boolValue, 1))
	}
	return appendMessage(dst, num, option)
}
