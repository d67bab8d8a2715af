package traces

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"antirobot/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const someParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// receiver takes spans as OpenTelemetry's own types decode them.
type receiver struct {
	*httptest.Server
	got    chan *v1.ResourceSpans
	status int
	hold   chan struct{} // nil: it answers at once
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{got: make(chan *v1.ResourceSpans, 64), status: 200}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		data := new(v1.TracesData)
		if err != nil || proto.Unmarshal(body, data) != nil || len(data.GetResourceSpans()) != 1 ||
			q.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%v: %x", err, body)
			return
		}
		if q.Header.Get("Authorization") != "Bearer of spans" {
			t.Error(q.Header)
		}
		if r.hold != nil {
			<-r.hold
		}
		w.WriteHeader(r.status)
		r.got <- data.GetResourceSpans()[0]
	}))
	t.Cleanup(r.Close)
	return r
}

func newTracer(t *testing.T, r *receiver, change func(c *Config)) (*Tracer, *metrics.Set) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Endpoint, cfg.Every, cfg.Share = r.URL+"/v1/traces", 10*time.Millisecond, 1
	cfg.AuthorizationFile = filepath.Join(t.TempDir(), "authorization")
	if err := os.WriteFile(cfg.AuthorizationFile, []byte("Bearer of spans\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&cfg)
	}
	set := metrics.NewSet()
	tr, err := New(cfg, Deps{Version: "1.2.3", Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr, set
}

func whole(tr *Tracer, parent string) *Request {
	at := time.Unix(1_800_000_000, 5)
	r := &Request{
		ID: "01K", At: at, End: at.Add(9 * time.Millisecond), Method: "GET", Host: "shop.example", Path: "/a\xff",
		Service: "shop",
		Verdict: "human", Cause: "none", Mode: "enforce", DecidedFrom: at.Add(time.Millisecond),
		DecidedTo: at.Add(2 * time.Millisecond),
		Status:    200, CalledAt: at.Add(3 * time.Millisecond), HeadAt: 4 * time.Millisecond,
		CallTook: 5 * time.Millisecond, Answer: 200, Upstream: "127.0.0.1:3000",
	}
	tr.Begin(&r.Context, request.NewID(at), []byte(parent), true)
	return r
}

func attributes(s *v1.Span) string {
	var all []string
	for _, a := range s.GetAttributes() {
		text := a.GetValue().GetStringValue()
		if text == "" {
			text = fmt.Sprint(a.GetValue().GetIntValue())
		}
		all = append(all, a.GetKey()+"="+text)
	}
	return strings.Join(all, " ")
}

// TestSpans: a receiver gets the request, and below it the decision and the service's answer, as part of the trace that
// went on.
func TestSpans(t *testing.T) {
	r := newReceiver(t)
	tr, set := newTracer(t, r, nil)
	told := whole(tr, someParent)
	tr.Offer(told)
	got := <-r.got
	if n := got.GetResource().GetAttributes(); len(n) != 2 || n[0].GetValue().GetStringValue() != "antirobot" ||
		n[1].GetValue().GetStringValue() != "1.2.3" {
		t.Errorf("resource %v", n)
	}
	spans := got.GetScopeSpans()[0].GetSpans()
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	first, service := spans[0], spans[2]
	if hex.EncodeToString(first.GetTraceId()) != someParent[3:35] ||
		hex.EncodeToString(first.GetParentSpanId()) != someParent[36:52] {
		t.Errorf("the request is %x below %x", first.GetTraceId(), first.GetParentSpanId())
	}
	for _, s := range spans[1:] {
		if string(s.GetTraceId()) != string(first.GetTraceId()) ||
			string(s.GetParentSpanId()) != string(first.GetSpanId()) ||
			string(s.GetSpanId()) == string(first.GetSpanId()) {
			t.Errorf("%s is %x below %x", s.GetName(), s.GetSpanId(), s.GetParentSpanId())
		}
	}
	if want := "00-" + someParent[3:35] + "-" + hex.EncodeToString(service.GetSpanId()) +
		"-01"; string(told.Context.Header()) != want {
		t.Errorf("the service gets %s, want %s", told.Context.Header(), want)
	}
	for i, want := range []struct {
		name, attributes string
		kind             v1.Span_SpanKind
		from, to         time.Duration
	}{
		{
			"GET", "http.request.method=GET url.path=/a? server.address=shop.example antirobot.request_id=01K " +
				"antirobot.service=shop antirobot.verdict=human http.response.status_code=200",
			v1.Span_SPAN_KIND_SERVER, 0,
			9,
		},
		{
			"decision", "antirobot.verdict=human antirobot.cause=none antirobot.mode=enforce",
			v1.Span_SPAN_KIND_INTERNAL,
			1, 2,
		},
		{"service shop", "http.request.method=GET network.peer.address=127.0.0.1:3000 antirobot.answer_began_us=4000 " +
			"http.response.status_code=200", v1.Span_SPAN_KIND_CLIENT, 3, 8},
	} {
		s := spans[i]
		from, to := time.Duration(s.GetStartTimeUnixNano()-uint64(told.At.UnixNano())),
			time.Duration(s.GetEndTimeUnixNano()-uint64(told.At.UnixNano()))
		if s.GetName() != want.name || s.GetKind() != want.kind || from != want.from*time.Millisecond ||
			to != want.to*time.Millisecond || s.GetStatus() != nil {
			t.Errorf("%v from %v to %v", s, from, to)
		}
		if a := attributes(s); a != want.attributes {
			t.Errorf("%s has %s\n              want %s", want.name, a, want.attributes)
		}
	}
	if err := tr.Close(); err != nil || set.GetOrCreateCounter("antirobot_traces_sent_total").Get() != 1 {
		t.Error("what was sent is not counted", err)
	}
}

// TestFailures: a request without a decision has no span of one, and what failed says so.
func TestFailures(t *testing.T) {
	r := newReceiver(t)
	tr, _ := newTracer(t, r, nil)
	told := whole(tr, "")
	told.DecidedTo, told.Answer, told.HeadAt, told.Status, told.Failure = time.Time{}, 0, 0, 502, "connection refused"
	tr.Offer(told)
	if err := tr.Close(); err != nil { // sends what waits
		t.Fatal(err)
	}
	spans := (<-r.got).GetScopeSpans()[0].GetSpans()
	if len(spans) != 2 || spans[0].GetParentSpanId() != nil {
		t.Fatal(spans)
	}
	for _, s := range spans {
		if s.GetStatus().GetCode() != v1.Status_STATUS_CODE_ERROR || s.GetStatus().
			GetMessage() != "connection refused" {
			t.Error(s)
		}
	}
}

// TestDrops: nobody waits for a receiver that hangs or refuses, and what it did not get is counted.
func TestDrops(t *testing.T) {
	r := newReceiver(t)
	r.status, r.hold = 503, make(chan struct{})
	tr, set := newTracer(t, r, func(c *Config) { c.Queue = 16 })
	told := whole(tr, someParent)
	n := 0
	for shed := set.GetOrCreateCounter(`antirobot_traces_dropped_total{why="queue"}`); shed.Get() == 0; n++ {
		tr.Offer(told)
	}
	close(r.hold)
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if refused := set.GetOrCreateCounter(`antirobot_traces_dropped_total{why="receiver"}`).
		Get(); refused != uint64(n-1) {
		t.Errorf("%d of %d are counted as refused", refused, n-1)
	}
}

// TestBegin: a trusted proxy decides what is traced; for others it is a share.
func TestBegin(t *testing.T) {
	unsampled := strings.TrimSuffix(someParent, "1") + "0"
	sampled := func(parent string, trusted bool, share float64) (n int) {
		for range 4000 {
			var c Context
			c.begin(request.NewID(time.Now()), []byte(parent), trusted, bound(share))
			if c.Sampled() {
				n++
			}
			if got := string(c.AppendID(nil)); c.Sampled() && parent == someParent && got != parent[3:35] {
				t.Fatalf("the trace %s became %s", parent, got)
			}
		}
		return n
	}
	for _, c := range []struct {
		parent      string
		trusted     bool
		share       float64
		least, most int
	}{
		{someParent, true, 0, 4000, 4000},
		{unsampled, true, 1, 0, 0},
		{someParent, false, 0, 0, 0},
		{unsampled, false, 1, 4000, 4000},
		{"", true, 0.5, 1500, 2500},
		{"", false, 0, 0, 0},
	} {
		if n := sampled(c.parent, c.trusted, c.share); n < c.least || n > c.most {
			t.Errorf("%+v: %d of 4000", c, n)
		}
	}
	var c Context
	rid := request.NewID(time.Now())
	c.begin(rid, []byte("00-zz"), true, bound(1))
	if string(c.AppendID(nil)) != hex.EncodeToString(rid[:]) {
		t.Errorf("a trace that begins here is %s", c.AppendID(nil))
	}
}

// TestBeginAllocatesNothing: neither for a request that is traced nor for the others.
func TestBeginAllocatesNothing(t *testing.T) {
	var c Context
	parent, rid := []byte(someParent), request.NewID(time.Now())
	for _, share := range []float64{0, 1} {
		if n := testing.AllocsPerRun(100, func() { c.begin(rid, parent, false, bound(share)) }); n != 0 {
			t.Errorf("share %v: %v allocations", share, n)
		}
	}
}

func TestParse(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		var c Context
		if _, ok := c.parse([]byte(text)); ok != want || !ok && c != (Context{}) {
			t.Errorf("%q: %v, %+v", text, ok, c)
		}
	}
	f(someParent, true)
	f("01"+someParent[2:]+"-what comes later", true)
	f("01"+someParent[2:], true)
	f("01"+someParent[2:]+"x", false)
	f("00"+someParent[2:]+"-x", false)
	f("ff"+someParent[2:], false)
	f(strings.ToUpper(someParent), false)
	f(strings.Replace(someParent, "0af7651916cd43dd8448eb211c80319c", strings.Repeat("0", 32), 1), false)
	f(strings.Replace(someParent, "b7ad6b7169203331", strings.Repeat("0", 16), 1), false)
	f(someParent[:54], false)
	f("", false)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(someParent))
	f.Add([]byte("cc" + someParent[2:] + "-x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c Context
		if _, ok := c.parse(text); ok && (string(c.AppendID(nil)) != string(text[3:35]) || c.parent == [8]byte{}) {
			t.Errorf("%q is read as %+v", text, c)
		}
	})
}

func TestValidate(t *testing.T) {
	c := Config{Endpoint: "127.0.0.1:4318", Page: "http://127.0.0.1:16686/", Share: 2}
	err := c.Validate()
	for _, want := range []string{"endpoint: ", "page: ", "share: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
	c = DefaultConfig()
	c.Page = "http://127.0.0.1:16686/trace/{trace}"
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if tr, err := New(c, Deps{Metrics: metrics.NewSet()}); tr != nil || err != nil {
		t.Errorf("without an endpoint: %v %v", tr, err)
	}
}
