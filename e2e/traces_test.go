package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestTraces sends a request of a trusted proxy that traces it, one that it does not trace, and one of a banned client: the service
// is told of the trace, and an OpenTelemetry receiver of the request, its decision and the service's answer.
func TestTraces(t *testing.T) {
	t.Parallel()
	heard := make(chan http.Header, 8)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { heard <- r.Header }))
	t.Cleanup(upstream.Close)
	spans := make(chan *v1.Span, 64)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		data := new(v1.TracesData)
		if err != nil || proto.Unmarshal(body, data) != nil {
			t.Errorf("%v: %x", err, body)
		}
		for _, of := range data.GetResourceSpans() {
			for _, s := range of.GetScopeSpans()[0].GetSpans() {
				spans <- s
			}
		}
	}))
	t.Cleanup(receiver.Close)
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	text := fmt.Sprintf("log: {access: true}\nidentity: {trusted_proxies: [127.0.0.1]}\ntraces: {endpoint: %q, share: 0, page: 'http://traces.example/trace/{trace}'}\n", receiver.URL+"/v1/traces")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := serve(t, upstream.URL, "--config", file)
	const trace, rest = "0af7651916cd43dd8448eb211c80319c", "vendor=a"
	ask := func(flags string, fields ...string) *response {
		fields = append(fields, "Traceparent", "00-"+trace+"-b7ad6b7169203331-"+flags, "Tracestate", rest)
		return visitor(t).get(g.url+"/traced", fields...)
	}
	ask("00").must(t, 200, "")
	if h := <-heard; h.Get("Traceparent") != "00-"+trace+"-b7ad6b7169203331-00" || h.Get("Tracestate") != rest {
		t.Errorf("what is not traced reaches the service as %v", h)
	}
	ask("01").must(t, 200, "")
	h := <-heard
	whole, decision, service := <-spans, <-spans, <-spans
	if got, want := h.Get("Traceparent"), fmt.Sprintf("00-%s-%x-01", trace, service.GetSpanId()); got != want || h.Get("Tracestate") != rest || len(h.Values("Traceparent")) != 1 {
		t.Errorf("the service is told %q, want %q", got, want)
	}
	if fmt.Sprintf("%x", whole.GetTraceId()) != trace || decision.GetName() != "decision" || service.GetName() != "service default" {
		t.Errorf("%v\n%v\n%v", whole, decision, service)
	}
	g.logs.find(func(s string) bool {
		return strings.Contains(s, `"trace_id":"`+trace+`"`) && strings.Contains(s, `"request"`)
	})

	g.ban("ip:203.0.113.5", "10m")
	ask("01", "X-Forwarded-For", "203.0.113.5").must(t, 302, "")
	whole, decision = <-spans, <-spans
	if s := fmt.Sprint(whole.GetAttributes(), decision.GetAttributes()); !strings.Contains(s, "robot") || !strings.Contains(s, "ban") {
		t.Errorf("of the banned client: %s", s)
	}
	eventually(t, "the journal finds the request by its trace", func() bool {
		out, err := g.command("tail", "trace:"+trace+" verdict:robot", "--follow=false")
		return err == nil && strings.Contains(out, " /traced ")
	})
	number := ""
	for _, a := range whole.GetAttributes() {
		if a.GetKey() == "antirobot.request_id" {
			number = a.GetValue().GetStringValue()
		}
	}
	if out, err := g.command("why", number); err != nil || !strings.Contains(out, "http://traces.example/trace/"+trace+"\n") {
		t.Errorf("why of the number that the span names: %v %s", err, out)
	}
	if out := g.api("GET", "/api/journal/"+number, nil); !strings.Contains(string(out), `"trace_page":"http://traces.example/trace/`+trace+`"`) {
		t.Errorf("the journal says of it %s", out)
	}
	eventually(t, "both are counted", func() bool { return g.metric("antirobot_traces_sent_total") == 2 })
}
