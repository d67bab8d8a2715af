package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
)

// TestPagesReadByPOST: a service that answers POST like GET gives no more pages away by it; what acknowledges a form or a webhook weighs
// nothing.
func TestPagesReadByPOST(t *testing.T) {
	until := func(bytes uint64) int {
		p, a := newAsker(t, nil)
		at := time.Unix(1.8e9, 0)
		for n := range 2000 {
			e := reading(at.Add(time.Duration(n)*time.Second/4), n, one(0))
			e.Method, e.Type, e.Document, e.BytesOut = 'P', verdict.TypeHTML, true, bytes
			if p.Process(e); len(a.questions) > 0 {
				return n
			}
		}
		return 2000
	}
	for bytes, within := range map[uint64]int{15_000: 500, 200: 2001} {
		if n := until(bytes); n >= within || within > 2000 && n < 2000 {
			t.Errorf("answers of %d bytes: asked after %d", bytes, n)
		}
	}
}
