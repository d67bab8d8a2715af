package streams

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/proxy/h1"
)

// ebbing is a client that sends nothing more of its body.
type ebbing struct {
	*httptest.ResponseRecorder
	readBy time.Time
}

func (e *ebbing) SetReadDeadline(t time.Time) error { e.readBy = t; return nil }
func (e *ebbing) SetWriteDeadline(time.Time) error  { return nil }
func (e *ebbing) FlushError() error                 { return nil }
func (e *ebbing) Close() error                      { return nil }

// Read is the body: it would wait until the deadline.
func (e *ebbing) Read([]byte) (int, error) {
	if time.Now().Before(e.readBy) {
		return 0, errors.New("it waits for a client whose body nobody wants")
	}
	return 0, os.ErrDeadlineExceeded
}

// TestStopBodyEarly: an upload that is stopped before it has begun to read does not wait either.
func TestStopBodyEarly(t *testing.T) {
	front, err := h1.NewServer(h1.DefaultConfig(), h1.Deps{Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	client := &ebbing{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "https://site.example/", nil)
	r.Body = client
	s := newStream(front, nil)
	for range 2 { // it serves one request after another
		s.begin(client, r)
		s.armRead()
		if !time.Now().Before(client.readBy) {
			t.Fatal("the body is not waited for")
		}
		s.readBy = time.Time{} // as before the first read, and long after
		s.StopBody()
		if _, err := s.ReadBody(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("reading ends with %v", err)
		}
		s.end()
	}
}
