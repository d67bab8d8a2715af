package admin

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"antirobot/verdict/training"
)

// TestEvents: the log comes out whole or not at all, and a slip in the question is told.
func TestEvents(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	l.refused(501, "not_available", "", "GET", "/api/events", "")
	l.refused(401, "unauthorized", "", "GET", "/api/events", "", "-Authorization", "")

	var fail error
	l = start(t, DefaultConfig(), Deps{Training: exports(func(w io.Writer, unlabelled bool, since time.Time) error {
		for range 100_000 {
			fmt.Fprintf(w, "%v,%s\n", unlabelled, since.Format(time.RFC3339))
		}
		return fail
	})})
	l.refused(401, "unauthorized", "", "GET", "/api/events", "", "-Authorization", "")
	l.refused(405, "method_refused", "", "DELETE", "/api/events", "")
	l.refused(400, "invalid_field", "since", "GET", "/api/events?since=yesterday", "")
	l.refused(400, "invalid_field", "unlabelled", "GET", "/api/events?unlabelled=perhaps", "")
	status, body, head := l.do("GET", "/api/events?unlabelled=true&since=2026-01-02T03:04:05Z", "")
	if want := strings.Repeat("true,2026-01-02T03:04:05Z\n", 100_000); status != 200 || body != want {
		t.Errorf("%d, %d bytes, want %d", status, len(body), len(want))
	}
	if kind := head.Get("Content-Type"); kind != "text/csv; charset=utf-8" {
		t.Errorf("it is %q", kind)
	}
	fail = errors.New("the disk is gone")
	if status, body, _ := l.do("GET", "/api/events", ""); status != 500 || !strings.Contains(body, "the disk is gone") || strings.Contains(body, "false,") {
		t.Errorf("%d %.200s", status, body)
	}
}

// exports is a training log.
type exports func(w io.Writer, unlabelled bool, since time.Time) error

func (e exports) ExportTraining(w io.Writer, o training.ExportOptions, _ time.Time) (training.Exported, error) {
	return training.Exported{}, e(w, o.Unlabelled, o.Since)
}
