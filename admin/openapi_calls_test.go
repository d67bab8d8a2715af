package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// exchange is one call and its answer.
type exchange struct {
	method, path string
	query        url.Values
	sent         []byte
	status       int
	kind         string // of the answer's content
	answer       []byte
}

// recorder keeps what passes through it.
type recorder struct {
	mu  sync.Mutex
	all []exchange
}

// record puts a recorder before the server: g.addr is then its address.
func record(t *testing.T, g *gateway) *recorder {
	t.Helper()
	r := &recorder{}
	to := &url.URL{Scheme: "http", Host: g.addr}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sent, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		e := exchange{method: req.Method, path: req.URL.EscapedPath(), query: req.URL.Query(), sent: sent}
		req.Body = io.NopCloser(bytes.NewReader(sent))
		proxy := httputil.ReverseProxy{
			Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) },
			ModifyResponse: func(resp *http.Response) error {
				answer, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				resp.Body = io.NopCloser(bytes.NewReader(answer))
				e.kind, _, _ = strings.Cut(resp.Header.Get("Content-Type"), ";")
				e.status, e.answer = resp.StatusCode, answer
				return err
			},
		}
		proxy.ServeHTTP(w, req)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, e)
	}))
	t.Cleanup(srv.Close)
	g.addr = srv.Listener.Addr().String()
	return r
}

// checkDescribed holds what was called and answered to the description, and runs the examples that were not called as they stand there.
func checkDescribed(t *testing.T, g *gateway, r *recorder) {
	t.Helper()
	doc := description(t, g.live)
	closeObjects(doc)
	ran := map[string][]exchange{} // by operation
	check := func(e exchange) {
		if op, item, arg := operation(doc, e.method, e.path); op != nil {
			checkCall(t, op, item, arg, &e)
			ran[op.OperationID] = append(ran[op.OperationID], e)
		} else if strings.HasPrefix(e.path, "/api/") && e.path != "/api/json/" {
			t.Errorf("%s %s was called and is not described", e.method, e.path)
		}
	}
	r.mu.Lock()
	done := r.all
	r.all = nil
	r.mu.Unlock()
	for _, e := range done {
		check(e)
	}
	for path, item := range doc.Paths.Map() {
		var there []exchange
		for method, op := range item.Operations() {
			there = append(there, ran[op.OperationID]...)
			if len(ran[op.OperationID]) == 0 {
				t.Errorf("%s %s was never called", method, path)
			}
			for _, p := range op.Parameters {
				checkExample(t, path, p.Value, ran[op.OperationID])
			}
			if op.RequestBody == nil || sentBefore(op, ran[op.OperationID]) {
				continue
			}
			body, err := json.Marshal(bodyOf(op).Example)
			if err != nil {
				t.Fatal(err)
			}
			target := path
			for _, p := range item.Parameters {
				target = strings.Replace(target, "{"+p.Value.Name+"}", fmt.Sprint(p.Value.Example), 1)
			}
			if status, answer, _ := g.do(method, target, string(body)); status != 200 {
				t.Errorf("the example of %s %s gets %d %s", method, target, status, answer)
			}
		}
		for _, p := range item.Parameters {
			checkExample(t, path, p.Value, there)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		check(e)
	}
}

func bodyOf(op *openapi3.Operation) *openapi3.MediaType {
	return op.RequestBody.Value.Content.Get("application/json")
}

// sentBefore reports whether the example of an operation was sent, and well.
func sentBefore(op *openapi3.Operation, ran []exchange) bool {
	for _, e := range ran {
		var v any
		if e.status == 200 && json.Unmarshal(e.sent, &v) == nil && reflect.DeepEqual(v, bodyOf(op).Example) {
			return true
		}
	}
	return false
}

// checkExample holds the example of a parameter to what was called.
func checkExample(t *testing.T, path string, p *openapi3.Parameter, ran []exchange) {
	t.Helper()
	if p.Example == nil {
		return
	}
	for _, e := range ran {
		given := e.query.Get(p.Name)
		if p.In == openapi3.ParameterInPath {
			r := route{path: argument.ReplaceAllString(path, "{}")}
			given, _ = r.match(e.path)
		}
		if reflect.DeepEqual(valueOf(p, given), p.Example) {
			return
		}
	}
	t.Errorf("%s: nobody calls it with %s = %v", path, p.Name, p.Example)
}

// operation finds what a call is described by; a path without an argument goes before one that has it.
func operation(doc *openapi3.T, method, path string) (op *openapi3.Operation, item *openapi3.PathItem, arg string) {
	if item := doc.Paths.Value(path); item != nil {
		return item.GetOperation(method), item, ""
	}
	for described, item := range doc.Paths.Map() {
		r := route{path: argument.ReplaceAllString(described, "{}")}
		if arg, ok := r.match(path); ok {
			return item.GetOperation(method), item, arg
		}
	}
	return nil, nil, ""
}

func checkCall(t *testing.T, op *openapi3.Operation, item *openapi3.PathItem, arg string, e *exchange) {
	t.Helper()
	fits := func(what string, s *openapi3.SchemaRef, v any) {
		t.Helper()
		if err := s.Value.VisitJSON(v, openapi3.EnableJSONSchema2020(), openapi3.EnableFormatValidation(), openapi3.MultiErrors()); err != nil {
			t.Errorf("%s %s: %s: %v", e.method, e.path, what, err)
		}
	}
	for name, given := range e.query {
		p := op.Parameters.GetByInAndName(openapi3.ParameterInQuery, name)
		if p == nil {
			t.Errorf("%s %s: the parameter %s is not described", e.method, e.path, name)
			continue
		}
		fits(name, p.Schema, valueOf(p, given[0]))
	}
	if e.status == 200 {
		for _, p := range item.Parameters {
			fits(p.Value.Name, p.Value.Schema, valueOf(p.Value, arg))
		}
		if op.RequestBody != nil {
			var v any
			if err := json.Unmarshal(e.sent, &v); err != nil {
				t.Fatal(err)
			}
			fits("the request", bodyOf(op).Schema, v)
		}
	}
	answer := op.Responses.Status(e.status)
	if answer == nil {
		answer = op.Responses.Default()
	}
	content := answer.Value.Content[e.kind]
	if content == nil {
		t.Errorf("%s %s: %d with %s is not described", e.method, e.path, e.status, e.kind)
		return
	}
	if e.kind == "application/json" {
		var v any
		if err := json.Unmarshal(e.answer, &v); err != nil {
			t.Fatal(err)
		}
		fits(strconv.Itoa(e.status), content.Schema, v)
	}
}

// valueOf is what a parameter means, as JSON has it.
func valueOf(p *openapi3.Parameter, text string) any {
	var v any
	if !p.Schema.Value.Type.Is("string") && json.Unmarshal([]byte(text), &v) == nil {
		return v
	}
	return text
}

// closeObjects forbids fields that are not described: a client has to bear them, a test has not.
func closeObjects(doc *openapi3.T) {
	closed := false
	var walk func(s *openapi3.SchemaRef)
	walk = func(s *openapi3.SchemaRef) {
		if s == nil || s.Ref != "" {
			return
		}
		if len(s.Value.Properties) > 0 {
			s.Value.AdditionalProperties.Has = &closed
		}
		for _, p := range s.Value.Properties {
			walk(p)
		}
		walk(s.Value.Items)
	}
	for _, s := range doc.Components.Schemas {
		walk(s)
	}
}
