package h1

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestBoundedMemory is pitfall 25: bodies of any size cost the same memory. H1_STREAM_MB sets their size.
func TestBoundedMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own memory would be measured")
	}
	mb := 64
	if v, err := strconv.Atoi(os.Getenv("H1_STREAM_MB")); err == nil {
		mb = v
	}
	size := int64(mb) << 20
	s := newService(t, func(k *talk) {
		r, _ := k.request(false)
		if r == nil {
			return
		}
		if r.Method == "POST" {
			n, _ := io.Copy(io.Discard, r.Body)
			k.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%d",
				len(fmt.Sprint(n)), n))
			return
		}
		chunked := r.URL.Path == "/chunked"
		if chunked {
			k.say("HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
		} else {
			k.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", size))
		}
		b := bytes.Repeat([]byte("x"), 1<<20)
		for range mb {
			if chunked {
				k.say("100000\r\n")
			}
			_, _ = k.Write(b)
			if chunked {
				k.say("\r\n")
			}
		}
		if chunked {
			k.say("0\r\n\r\n")
		}
	})
	g := newGateway(t, s, setup{})
	before := rss(t)
	for _, path := range []string{"/", "/chunked"} {
		c1 := dial(t, g)
		c1.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		_ = c1.SetReadDeadline(time.Now().Add(5 * time.Minute))
		c1.head()
		if n, err := io.CopyN(io.Discard, c1.r, size); n != size {
			t.Fatalf("downloaded %d of %d: %v", n, size, err)
		}
		c1.Close()
	}
	c2 := dial(t, g)
	_ = c2.SetReadDeadline(time.Now().Add(5 * time.Minute))
	c2.say(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size))
	b := make([]byte, 1<<20)
	for range mb {
		_, _ = c2.Write(b)
	}
	if _, body := c2.answer("POST"); body != fmt.Sprint(size) {
		t.Errorf("uploaded %s of %d", body, size)
	}
	grown := rss(t) - before
	t.Logf("%d MB each way: %d KB more resident", mb, grown>>10)
	if grown > 32<<20 {
		t.Errorf("grew by %d MB", grown>>20)
	}
}

func rss(t *testing.T) int64 {
	runtime.GC()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
