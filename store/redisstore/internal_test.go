package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store/redisstore/redistest"
)

// TestReap: expired keys leave the index, live ones stay in it.
func TestReap(t *testing.T) {
	r := redistest.Start(t)
	s, err := New(DefaultConfig(), Deps{URL: "redis://" + r.Addr, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ctx := context.Background()
	const n = 2000 // several pages for most buckets
	for i := range n {
		ttl := time.Hour
		if i%2 == 0 {
			ttl = time.Millisecond
		}
		if err := s.Put(ctx, fmt.Appendf(nil, "k%d", i), []byte("v"), ttl); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Millisecond)
	names := func() (n int) {
		for b := range uint64(kvBuckets) {
			for from := "["; ; {
				keys, err := s.page(ctx, b, from, "+")
				if err != nil {
					t.Fatal(err)
				}
				if len(keys) == 0 {
					break
				}
				n += len(keys)
				from = "(" + keys[len(keys)-1]
			}
		}
		return n
	}
	if got := names(); got != n {
		t.Fatalf("the index has %d names before", got)
	}
	for b := range uint64(kvBuckets) {
		if err := s.reap(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(); got != n/2 {
		t.Errorf("the index has %d names after; want %d", got, n/2)
	}
}

// TestDropsParse: drops are told apart by their floors; the last one that covers a record counts.
func TestDropsParse(t *testing.T) {
	d, err := parseDrops("100:1,50:7,10:9")
	if err != nil {
		t.Fatal(err)
	}
	for record, want := range map[uint32]uint32{100: 0, 99: 1, 50: 1, 49: 7, 10: 7, 9: 9, 0: 9} {
		if got := d.of(record); got != want {
			t.Errorf("record %d belongs to drop %d; want %d", record, got, want)
		}
	}
	for _, bad := range []string{"", "1", "1:", ":1", "1:2,", "a:b", "1:4294967296"} {
		if d, err := parseDrops(bad); err == nil {
			t.Errorf("%q is %v", bad, d)
		}
	}
}
