package h1

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"net"
	"strings"
	"testing"
	"time"

	"antirobot/proxy/h1/hello"
)

// records writes the records of TLS 1.3 that crypto/tls has no function for.
type records struct {
	t      *testing.T
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

// newRecords goes on where a client's handshake has ended, of which it reads the log of keys.
func newRecords(t *testing.T, log string) *records {
	t.Helper()
	r := &records{t: t}
	for line := range strings.Lines(log) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "CLIENT_TRAFFIC_SECRET_0" {
			r.secret, _ = hex.DecodeString(f[2])
		}
	}
	if len(r.secret) != sha256.Size {
		t.Skip("the handshake chose another cipher suite than TLS_AES_128_GCM_SHA256")
	}
	r.rekey()
	return r
}

// expand is HKDF-Expand-Label (RFC 8446 section 7.1).
func (r *records) expand(label string, n int) []byte {
	label = "tls13 " + label
	b, err := hkdf.Expand(sha256.New, r.secret, "\x00"+string([]byte{byte(n), byte(len(label))})+label+"\x00", n)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

func (r *records) rekey() {
	block, err := aes.NewCipher(r.expand("key", 16))
	if err != nil {
		r.t.Fatal(err)
	}
	if r.aead, err = cipher.NewGCM(block); err != nil {
		r.t.Fatal(err)
	}
	r.iv, r.seq = r.expand("iv", 12), 0
}

// appendRecord appends a record of a type of content.
func (r *records) appendRecord(dst []byte, content byte, text string) []byte {
	head := []byte{23, 3, 3, 0, byte(len(text) + 1 + 16)}
	nonce := bytes.Clone(r.iv)
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^r.seq)
	r.seq++
	return r.aead.Seal(append(dst, head...), nonce, append([]byte(text), content), head)
}

// appendKeyUpdate appends a change of the client's keys that asks for one of the server's (RFC 8446 section 4.6.3).
func (r *records) appendKeyUpdate(dst []byte) []byte {
	dst = r.appendRecord(dst, 22, "\x18\x00\x00\x01\x01")
	r.secret = r.expand("traffic upd", sha256.Size)
	r.rekey()
	return dst
}

// smallSockets gives accepted connections little room for what is sent.
type smallSockets struct{ net.Listener }

func (l smallSockets) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if t, ok := nc.(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(4 << 10)
	}
	return nc, err
}

// TestKeyUpdatesHoldNoConnection: a client that changes its keys again and again within its first request, and takes
// none of the answers, which reading writes, is cut in the time of a head or of a body.
func TestKeyUpdatesHoldNoConnection(t *testing.T) {
	certs, err := hello.LoadCertificates([]hello.CertificateFiles{certificate(t, t.TempDir(), "a.test", 1)})
	if err != nil {
		t.Fatal(err)
	}
	for name, begin := range map[string]string{
		"head": "GET / HTTP/1.1\r\nHost: a.test\r\nX: ",
		"body": "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, nil, setup{
				within:   func(ln net.Listener) net.Listener { return smallSockets{ln} },
				listener: ListenerOptions{TLS: certs.Config()},
				cfg: func(c *Config) {
					c.HeaderTimeout, c.ReadTimeout, c.WriteTimeout = time.Second, time.Second, time.Second
				},
				handler: func(x *Exchange, _ func()) { _, _ = x.ReadBody(1 << 20) },
			})
			nc, err := net.Dial("tcp", g.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			_, _ = nc.(*net.TCPConn).SetReadBuffer(4<<10), nc.(*net.TCPConn).SetWriteBuffer(4<<10)
			var log bytes.Buffer
			if err := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: &log}).
				Handshake(); err != nil {
				t.Fatal(err)
			}
			r := newRecords(t, log.String())
			_, _ = nc.Write(r.appendRecord(nil, 23, begin))
			for full := false; !full; {
				var b []byte
				for range 100 {
					b = r.appendRecord(r.appendKeyUpdate(b), 23, "a")
				}
				_ = nc.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
				_, err := nc.Write(b)
				full = err != nil // nobody reads any more
			}
			// the goodbye of TLS may take five of them
			for by := time.Now().Add(20 * time.Second); g.metric("antirobot_http_open_connections") != "0"; time.Sleep(
				10 * time.Millisecond) {
				if time.Now().After(by) {
					t.Fatal("the connection is held")
				}
			}
		})
	}
}
