package hello

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"

	"antirobot/request"
)

var errProxyHeader = errors.New("malformed PROXY protocol header")

const (
	proxyV1     = "PROXY "
	proxyV2     = "\r\n\r\n\x00\r\nQUIT\n"
	maxProxyV1  = 107 // with CRLF
	maxProxyV2  = 4 << 10
	proxyV2Head = 16
)

// ReadProxyHeader reads the PROXY protocol header, version 1 or 2, and returns the client's address. The zero address
// means the balancer itself (LOCAL, UNKNOWN). It reads no further. After an error the connection is closed without an
// answer.
func ReadProxyHeader(r *bufio.Reader) (netip.Addr, error) {
	first, err := r.Peek(1)
	if err != nil {
		return netip.Addr{}, err
	}
	if first[0] == proxyV1[0] {
		return readProxyV1(r)
	}
	return readProxyV2(r)
}

func readProxyV1(r *bufio.Reader) (netip.Addr, error) {
	var line [maxProxyV1]byte
	n := 0
	for n < 2 || line[n-1] != '\n' {
		if n == len(line) {
			return netip.Addr{}, errProxyHeader
		}
		c, err := r.ReadByte()
		if err != nil {
			return netip.Addr{}, err
		}
		if n < len(proxyV1) && c != proxyV1[n] {
			return netip.Addr{}, errProxyHeader
		}
		line[n] = c
		n++
	}
	if n < len(proxyV1)+2 || line[n-2] != '\r' {
		return netip.Addr{}, errProxyHeader
	}
	words := bytes.Split(line[len(proxyV1):n-2], []byte(" "))
	if string(words[0]) == "UNKNOWN" {
		return netip.Addr{}, nil // the rest is ignored
	}
	if len(words) != 5 {
		return netip.Addr{}, errProxyHeader
	}
	src, errSrc := netip.ParseAddr(string(words[1]))
	dst, errDst := netip.ParseAddr(string(words[2]))
	if errSrc != nil || errDst != nil || src.Zone() != "" || !proxyPort(words[3]) || !proxyPort(words[4]) {
		return netip.Addr{}, errProxyHeader
	}
	switch {
	case string(words[0]) == "TCP4" && src.Is4() && dst.Is4():
	case string(words[0]) == "TCP6" && src.Is6() && dst.Is6():
	default:
		return netip.Addr{}, errProxyHeader
	}
	return request.Unwrap(src), nil
}

func proxyPort(b []byte) bool {
	n, err := strconv.ParseUint(string(b), 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == string(b)
}

func readProxyV2(r *bufio.Reader) (netip.Addr, error) {
	var head [proxyV2Head]byte
	for i := range head {
		c, err := r.ReadByte()
		if err != nil {
			return netip.Addr{}, err
		}
		if i < len(proxyV2) && c != proxyV2[i] {
			return netip.Addr{}, errProxyHeader
		}
		head[i] = c
	}
	size := int(binary.BigEndian.Uint16(head[14:]))
	if size > maxProxyV2 {
		return netip.Addr{}, errProxyHeader
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return netip.Addr{}, err
	}
	switch head[12] {
	case 0x20: // LOCAL
		return netip.Addr{}, nil
	case 0x21: // PROXY
	default:
		return netip.Addr{}, errProxyHeader
	}
	switch head[13] {
	case 0x00: // UNSPEC
		return netip.Addr{}, nil
	case 0x11: // TCP over IPv4
		if size >= 12 {
			return netip.AddrFrom4([4]byte(body[:4])), nil
		}
	case 0x21: // TCP over IPv6
		if size >= 36 {
			return request.Unwrap(netip.AddrFrom16([16]byte(body[:16]))), nil
		}
	}
	return netip.Addr{}, errProxyHeader
}

// Early is a connection with bytes that were read already, which are read again first. It owns Bytes. For one reader.
type Early struct {
	net.Conn
	Bytes []byte
}

func (c *Early) Read(p []byte) (int, error) {
	if len(c.Bytes) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.Bytes)
	c.Bytes = c.Bytes[n:]
	return n, nil
}
