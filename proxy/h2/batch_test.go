package h2

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// write gives b a text that it has to take at once.
func write(t *testing.T, b *batch, text string) {
	t.Helper()
	if n, err := b.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("%d of %d bytes, %v", n, len(text), err)
	}
	synctest.Wait()
}

// TestBatchSendsTogether: what is written while something is being sent goes out in one piece, in its order.
func TestBatchSendsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, client := net.Pipe()
		b := newBatch(nc, time.Minute)
		for _, text := range []string{"head", " of one", ", body", " of another"} {
			write(t, b, text)
		}
		buf := make([]byte, 64)
		for _, want := range []string{"head", " of one, body of another"} {
			if n, err := client.Read(buf); string(buf[:n]) != want || err != nil {
				t.Errorf("read %q, %v; want %q", buf[:n], err, want)
			}
		}
		synctest.Wait()
		if b.sending || b.next != nil {
			t.Error("it goes on although nothing waits")
		}
	})
}

// TestBatchIsBounded: who writes waits once enough waits to be sent.
func TestBatchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, client := net.Pipe()
		b := newBatch(nc, time.Minute)
		write(t, b, "first")
		write(t, b, strings.Repeat("x", batchMost))
		more := make(chan error, 1)
		go func() {
			_, err := b.Write([]byte("last"))
			more <- err
			b.close()
			_ = nc.Close()
		}()
		synctest.Wait()
		select {
		case <-more:
			t.Fatal("it has taken more than may wait")
		default:
		}
		got, err := io.ReadAll(client)
		if len(got) != len("first")+batchMost+len("last") || !strings.HasSuffix(string(got), "xlast") || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if err := <-more; err != nil {
			t.Error(err)
		}
	})
}

// TestBatchGivesUp: a client that does not read ends the connection, and what is written afterwards fails.
func TestBatchGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, client := net.Pipe()
		b := newBatch(nc, time.Minute)
		write(t, b, "never read")
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := b.Write([]byte("more")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a later write: %v", err)
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection is still open: %v", err)
		}
	})
}

// TestBatchLastWords: closing sends what waits, for a moment.
func TestBatchLastWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, client := net.Pipe()
		b := newBatch(nc, time.Minute)
		write(t, b, "GO")
		write(t, b, "AWAY")
		began := time.Now()
		b.close()
		if took := time.Since(began); took != lastWords {
			t.Errorf("closing took %v with a client that does not read", took)
		}
		if _, err := b.Write([]byte("x")); err == nil {
			t.Error("a closed connection takes more")
		}
		_, _ = nc.Close(), client.Close()
	})
}
