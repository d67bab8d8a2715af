package h1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"antirobot/request"
)

// AwaitEnd waits for running. If ctx ends first, it calls cut, waits, and returns ctx's error.
func AwaitEnd(ctx context.Context, running *sync.WaitGroup, cut func()) error {
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	cut()
	<-done
	return fmt.Errorf("shut down: %w", ctx.Err())
}

// AtOnce shuts down without a grace period.
func AtOnce(shutdown func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := shutdown(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// AddrOf returns the address of a TCP or UDP peer.
func AddrOf(a net.Addr) netip.Addr {
	if a, ok := a.(interface{ AddrPort() netip.AddrPort }); ok {
		return request.Unwrap(a.AddrPort().Addr().WithZone(""))
	}
	return netip.Addr{}
}
