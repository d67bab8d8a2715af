package hello

import (
	"bufio"
	"bytes"
	"testing"
	"testing/iotest"
)

// FuzzProxyHeader must neither panic nor read beyond the header.
func FuzzProxyHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET"))
	f.Add([]byte(proxyV2 + "\x21\x11\x00\x0c\x01\x02\x03\x04\x01\x02\x03\x04\x00\x01\x00\x01GET"))
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := ReadProxyHeader(bufio.NewReader(bytes.NewReader(in)))
		a2, err2 := ReadProxyHeader(bufio.NewReader(iotest.OneByteReader(bytes.NewReader(in))))
		if a != a2 || (err == nil) != (err2 == nil) {
			t.Fatalf("whole %v %v, in pieces %v %v", a, err, a2, err2)
		}
	})
}
