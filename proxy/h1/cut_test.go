package h1

import (
	"net"
	"testing"
)

// TestCutBody: a body that ends with its connection, at whatever point, never looks complete to the service.
func TestCutBody(t *testing.T) {
	for _, sent := range []string{
		"", "5\r\nhel", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n",
		"5\r\nhello\r\n0\r\nX: y\r\n",
	} {
		whole := make(chan bool, 1)
		s := newService(t, func(k *talk) {
			r, _ := k.request(true)
			whole <- r != nil
		})
		g := newGateway(t, s, setup{})
		c := dial(t, g)
		c.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + sent)
		_ = c.Conn.(*net.TCPConn).CloseWrite()
		c.rest()
		if <-whole {
			t.Errorf("%q looked whole", sent)
		}
	}
}
