package upstream

import (
	"testing"
)

func TestReuseAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	g := group(t, nil, serve(t, listen(t), echoLines).url(), serve(t, listen(t), echoLines).url())
	a, b := get(t, g), get(t, g)
	a.Release()
	b.Release()
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		c, err := g.Get(ctx, false)
		if err != nil {
			t.Fatal(err)
		}
		if !c.Reused() {
			t.Fatal("a new connection")
		}
		c.Release()
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkGetRelease(b *testing.B) {
	g := group(b, nil, serve(b, listen(b), echoLines).url())
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		c, err := g.Get(ctx, false)
		if err != nil {
			b.Fatal(err)
		}
		c.Release()
	}
}

func BenchmarkGetReleaseParallel(b *testing.B) {
	g := group(b, nil, serve(b, listen(b), echoLines).url())
	ctx := b.Context()
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c, err := g.Get(ctx, false)
			if err != nil {
				b.Error(err)
				return
			}
			c.Release()
		}
	})
}
