package blackbox

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// gatewayHTTP3 starts the product's binary with a listener of HTTP/3, and an interpreter before it.
func gatewayHTTP3(bin string) launcher {
	return func(t *testing.T, serviceURL string) (string, func()) {
		addr, dir := ports.Addr(t), t.TempDir()
		file := filepath.Join(dir, "antirobot.yaml")
		cert := certify(t, dir)
		text := fmt.Sprintf(`listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
admin: {listen: %q}
data_dir: %q
http: {max_conns_per_addr: 0}
defaults: {upstream: {urls: [%q]}}
services:
  - {name: one, hosts: [%s]}
  - {name: two, hosts: [%s], upstream: {protocol: h2}}
`, addr, cert, cert, ports.Addr(t), dir, serviceURL, hostHTTP1, hostHTTP2)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stop := run(t, addr, bin, "serve", "--config", file)
		return interpret(t, addr), stop
	}
}

// certify writes a certificate and its key into one file.
func certify(t *testing.T, dir string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{hostHTTP1}}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	file := filepath.Join(dir, "cert.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// notHTTP3 are cases that mean something else over HTTP/3.
var notHTTP3 = []string{
	"the scheme does not say how the client came", // it speaks of a connection without TLS
	"trailers: without an end",                    // nothing may follow them in any case
	"refused: no scheme",                          // quic-go does not ask for one, and nobody is told of it
}

// http3Cases are those of HTTP/2 but for what is HTTP/2's own: windows and frames.
func http3Cases() []Case {
	var out []Case
	for _, f := range []func() []Case{malformedCases, requestCases, uploadCases, streamedCases, connectCases} {
		out = append(out, f()...)
	}
	return slices.DeleteFunc(out, func(c Case) bool { return slices.Contains(notHTTP3, c.Name) })
}

// TestHTTP3 runs them over HTTP/3 against the binary.
func TestHTTP3(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	report(t, suiteStreams(t, gatewayHTTP3(bin), http3Cases(), hostHTTP1, 1, nil), nil)
}

// What HTTP/3 calls its frames (RFC 9114 section 7.2), and the setting of extended CONNECT (RFC 9220).
const (
	frameData, frameHead = 0, 1
	frameSettings        = 4
	frameGoAway          = 7

	settingConnect = 8
)

// interpreter stands between a client of HTTP/2 and a proxy of HTTP/3, so that the cases of the one hold for the other: it
// makes HTTP/3 of each frame, unchecked. One connection of the client is one of QUIC. Flow control is QUIC's.
type interpreter struct {
	client net.Conn
	proxy  *quic.Conn
	*http2.Framer
	dec *hpack.Decoder

	mu      sync.Mutex // of what goes to the client
	enc     *hpack.Encoder
	block   bytes.Buffer
	streams map[uint32]*quic.Stream
}

// interpret listens for clients of HTTP/2 until the test ends, and returns the address.
func interpret(t *testing.T, proxy string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer client.Close()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				own := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}, ServerName: "h1.test"}
				qc, err := quic.DialAddr(ctx, proxy, own, &quic.Config{MaxIdleTimeout: patience})
				if err != nil {
					t.Errorf("QUIC: %v", err)
					return
				}
				newInterpreter(client, qc).run()
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String()
}

func newInterpreter(client net.Conn, proxy *quic.Conn) *interpreter {
	i := &interpreter{client: client, proxy: proxy, Framer: http2.NewFramer(client, client), streams: map[uint32]*quic.Stream{}}
	i.enc = hpack.NewEncoder(&i.block)
	i.dec = hpack.NewDecoder(4096, nil)
	return i
}

// run ends with the client's connection.
func (i *interpreter) run() {
	defer func() { _ = i.proxy.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") }()
	if _, err := io.ReadFull(i.client, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	control, err := i.proxy.OpenUniStream()
	if err != nil {
		return
	}
	_, _ = control.Write([]byte{0, frameSettings, 0})
	go i.readControl()
	context.AfterFunc(i.proxy.Context(), func() { // the proxy has ended the connection
		i.mu.Lock()
		defer i.mu.Unlock()
		var why *quic.ApplicationError
		if errors.As(context.Cause(i.proxy.Context()), &why) && why.Remote {
			_ = i.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil)
		}
		_ = i.client.Close()
	})
	for {
		f, err := i.ReadFrame()
		if err != nil || i.pass(f) != nil {
			return
		}
	}
}

// pass hands a frame of the client on.
func (i *interpreter) pass(f http2.Frame) error {
	str := i.streams[f.Header().StreamID]
	switch f := f.(type) {
	case *http2.PingFrame:
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.WritePing(true, f.Data)
	case *http2.HeadersFrame:
		block := bytes.Clone(f.HeaderBlockFragment())
		for ended := f.HeadersEnded(); !ended; {
			next, err := i.ReadFrame()
			if err != nil {
				return err
			}
			more := next.(*http2.ContinuationFrame)
			block = append(block, more.HeaderBlockFragment()...)
			ended = more.HeadersEnded()
		}
		return i.passHead(f.StreamID, block, f.StreamEnded())
	case *http2.DataFrame:
		if str == nil {
			return nil
		}
		if len(f.Data()) > 0 {
			_, _ = str.Write(frame3(frameData, f.Data()))
		}
		if f.StreamEnded() {
			_ = str.Close()
		}
	case *http2.RSTStreamFrame:
		if str != nil {
			str.CancelWrite(quic.StreamErrorCode(http3.ErrCodeRequestCanceled))
			str.CancelRead(quic.StreamErrorCode(http3.ErrCodeRequestCanceled))
		}
	}
	return nil
}

// passHead opens a stream with a head, or adds trailers to one.
func (i *interpreter) passHead(id uint32, compressed []byte, ended bool) error {
	fields, err := i.dec.DecodeFull(compressed)
	if err != nil {
		return err
	}
	var block bytes.Buffer
	enc := qpack.NewEncoder(&block)
	for _, f := range fields {
		_ = enc.WriteField(qpack.HeaderField{Name: f.Name, Value: f.Value})
	}
	str, ok := i.streams[id]
	if !ok {
		if str, err = i.proxy.OpenStreamSync(i.proxy.Context()); err != nil {
			return err
		}
		i.streams[id] = str
		go i.readAnswer(id, str)
	}
	_, _ = str.Write(frame3(frameHead, block.Bytes()))
	if ended {
		_ = str.Close()
	}
	return nil
}

// readAnswer hands an answer to the client.
func (i *interpreter) readAnswer(id uint32, str *quic.Stream) {
	in := quicvarint.NewReader(str)
	for {
		kind, payload, err := readFrame(in)
		i.mu.Lock()
		switch {
		case err == io.EOF:
			_ = i.WriteData(id, true, nil)
		case err != nil:
			_ = i.WriteRSTStream(id, http2.ErrCodeCancel)
		case kind == frameHead:
			_ = i.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: i.hpack(payload), EndHeaders: true})
		case kind == frameData:
			for ; len(payload) > 0; payload = payload[min(16_000, len(payload)):] {
				_ = i.WriteData(id, false, payload[:min(16_000, len(payload))])
			}
		}
		i.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// hpack makes a block of HTTP/2 of one of HTTP/3.
func (i *interpreter) hpack(block []byte) []byte {
	i.block.Reset()
	for next := qpack.NewDecoder().Decode(block); ; {
		f, err := next()
		if err != nil {
			return i.block.Bytes()
		}
		_ = i.enc.WriteField(hpack.HeaderField{Name: f.Name, Value: f.Value})
	}
}

// readControl hands on what the proxy says of the whole connection.
func (i *interpreter) readControl() {
	for {
		str, err := i.proxy.AcceptUniStream(i.proxy.Context())
		if err != nil {
			return
		}
		in := quicvarint.NewReader(str)
		if kind, err := quicvarint.Read(in); kind != 0 || err != nil {
			continue
		}
		for {
			kind, payload, err := readFrame(in)
			if err != nil {
				return
			}
			i.mu.Lock()
			switch kind {
			case frameSettings:
				_ = i.WriteSettings(append(settingsHTTP3(payload), http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})...)
				_ = i.WriteWindowUpdate(0, 1<<30)
			case frameGoAway:
				_ = i.WriteGoAway(0, http2.ErrCodeNo, nil)
			}
			i.mu.Unlock()
		}
	}
}

// settingsHTTP3 are those that HTTP/2 has, too.
func settingsHTTP3(payload []byte) (all []http2.Setting) {
	for in := bytes.NewReader(payload); ; {
		id, _ := quicvarint.Read(in)
		v, err := quicvarint.Read(in)
		if err != nil {
			return all
		}
		if id == settingConnect {
			all = append(all, http2.Setting{ID: http2.SettingEnableConnectProtocol, Val: uint32(v)})
		}
	}
}

// frame3 is a frame of HTTP/3.
func frame3(kind uint64, payload []byte) []byte {
	return append(quicvarint.Append(quicvarint.Append(nil, kind), uint64(len(payload))), payload...)
}

// readFrame reads a frame of HTTP/3. io.EOF is the stream's proper end.
func readFrame(in quicvarint.Reader) (kind uint64, payload []byte, err error) {
	if kind, err = quicvarint.Read(in); err != nil {
		return 0, nil, err
	}
	n, err := quicvarint.Read(in)
	if err == nil {
		payload = make([]byte, n)
		_, err = io.ReadFull(in, payload)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return kind, payload, err
}
