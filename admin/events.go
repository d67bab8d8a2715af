package admin

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"time"

	"antirobot/verdict/training"
)

// events answers with the training log. It is written to a file first, so that an error can still be reported.
func (s *gatewayCalls) events(ctx *call) (_ any, err error) {
	var since time.Time
	if q := string(ctx.QueryArgs().Peek("since")); q != "" {
		if since, err = time.Parse(time.RFC3339, q); err != nil {
			return nil, badField("since", "%q is no time such as 2026-01-02T15:04:05Z", q)
		}
	}
	var unlabelled bool
	switch q := string(ctx.QueryArgs().Peek("unlabelled")); q {
	case "", "false":
	case "true":
		unlabelled = true
	default:
		return nil, badField("unlabelled", "%q is neither true nor false", q)
	}
	f, err := os.CreateTemp("", "antirobot-events-*.csv")
	if err != nil {
		return nil, fmt.Errorf("export events: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := os.Remove(f.Name()); err != nil { // it lives as long as it is open
		return nil, fmt.Errorf("export events: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	if _, err := s.deps.Training.ExportTraining(w, training.ExportOptions{Unlabelled: unlabelled, Since: since},
		s.now()); err != nil {
		return nil, fmt.Errorf("export events: %w", err)
	}
	if err := w.Flush(); err != nil {
		return nil, fmt.Errorf("export events: %w", err)
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, fmt.Errorf("export events: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("export events: %w", err)
	}
	ctx.SetContentType("text/csv; charset=utf-8")
	ctx.SetBodyStream(f, int(size)) // closes it
	ctx.acted = true                // it only reads
	return streamed{}, nil
}
