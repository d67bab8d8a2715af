package streams

import "testing"

func TestBounds(t *testing.T) {
	var b Bounds
	if b.Streams(100, 1<<20, 256<<10, 0); b.Err() != nil {
		t.Error(b.Err())
	}
	b.Streams(0, 1<<20, 1, 400)
	b.Check(false, "ping_after: %d", 7)
	if err := b.Err(); err == nil || err.Error() != "max_streams: 0 is not within 1 and 10000\nstream_window: 1 is not within 16384 and 1073741824\nping_after: 7" {
		t.Error(err)
	}
}
