package proxy

import (
	"fmt"
	"io"
	"math/bits"
	"sync/atomic"
	"time"
)

// latency is a histogram of durations without a lock: buckets by powers of two from 1 µs to about 134 s. It is safe for
// concurrent use and usable as its zero value.
type latency struct {
	buckets [28]atomic.Uint64 // bucket i: below 2^i µs
	over    atomic.Uint64
	sum     atomic.Uint64 // nanoseconds
}

func (l *latency) observe(d time.Duration) {
	l.sum.Add(uint64(max(d, 0)))
	i := bits.Len64(uint64(max(d, 0) / time.Microsecond))
	if i >= len(l.buckets) {
		l.over.Add(1)
		return
	}
	l.buckets[i].Add(1)
}

// write prints l in the Prometheus text format; labels is empty or `name="value"`.
func (l *latency) write(w io.Writer, name, labels string) {
	sep := ""
	if labels != "" {
		sep = ","
	}
	total := uint64(0)
	for i := range l.buckets {
		total += l.buckets[i].Load()
		fmt.Fprintf(w, "%s_bucket{%s%sle=\"%g\"} %d\n", name, labels, sep, float64(uint64(1)<<i)/1e6, total)
	}
	total += l.over.Load()
	fmt.Fprintf(w, "%s_bucket{%s%sle=\"+Inf\"} %d\n", name, labels, sep, total)
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(w, "%s_sum%s %g\n%s_count%s %d\n", name, labels, float64(l.sum.Load())/1e9, name, labels, total)
}
