package hello

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"slices"
	"strconv"
)

// These extensions are counted and otherwise ignored: they depend on the site.
const (
	extensionName = 0x0000
	extensionALPN = 0x0010
)

// JA4 is the fingerprint of a TLS handshake (github.com/FoxIO-LLC/ja4, the part under BSD-3-Clause). Browsers shuffle
// ciphers and extensions, so both are sorted before hashing. quic: the handshake came in QUIC.
func JA4(h *tls.ClientHelloInfo, quic bool) []byte {
	ciphers, extensions := withoutGrease(h.CipherSuites), withoutGrease(h.Extensions)
	out := make([]byte, 0, 36)
	out = append(out, 't')
	if quic {
		out[0] = 'q'
	}
	out = append(out, versionName(withoutGrease(h.SupportedVersions))...)
	if slices.Contains(extensions, extensionName) {
		out = append(out, 'd')
	} else {
		out = append(out, 'i')
	}
	out = appendCount(out, len(ciphers))
	out = appendCount(out, len(extensions))
	out = append(appendProtocol(out, h.SupportedProtos), '_')
	slices.Sort(ciphers)
	out = append(appendHash(out, appendHexList(nil, ciphers)), '_')
	extensions = slices.DeleteFunc(extensions, func(e uint16) bool { return e == extensionName || e == extensionALPN })
	slices.Sort(extensions)
	list := appendHexList(nil, extensions)
	if len(h.SignatureSchemes) > 0 {
		schemes := make([]uint16, len(h.SignatureSchemes))
		for i, s := range h.SignatureSchemes {
			schemes[i] = uint16(s)
		}
		list = appendHexList(append(list, '_'), withoutGrease(schemes))
	}
	return appendHash(out, list)
}

// withoutGrease drops reserved values (RFC 8701).
func withoutGrease(values []uint16) []uint16 {
	return slices.DeleteFunc(slices.Clone(values), func(v uint16) bool { return v&0x0f0f == 0x0a0a && v>>8 == v&0xff })
}

func versionName(versions []uint16) string {
	if len(versions) == 0 {
		return "00"
	}
	switch slices.Max(versions) {
	case tls.VersionTLS13:
		return "13"
	case tls.VersionTLS12:
		return "12"
	case tls.VersionTLS11:
		return "11"
	case tls.VersionTLS10:
		return "10"
	}
	return "00"
}

func appendCount(b []byte, n int) []byte {
	n = min(n, 99)
	return append(b, byte('0'+n/10), byte('0'+n%10))
}

func appendProtocol(b []byte, protocols []string) []byte {
	if len(protocols) == 0 || protocols[0] == "" {
		return append(b, "00"...)
	}
	p := protocols[0]
	if !alphanumeric(p[0]) || !alphanumeric(p[len(p)-1]) {
		p = hex.EncodeToString([]byte(p))
	}
	return append(b, p[0], p[len(p)-1])
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func appendHexList(b []byte, values []uint16) []byte {
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		for n := uint32(0x1000); n > uint32(v) && n > 1; n >>= 4 {
			b = append(b, '0')
		}
		b = strconv.AppendUint(b, uint64(v), 16)
	}
	return b
}

func appendHash(b, list []byte) []byte {
	if len(list) == 0 {
		return append(b, "000000000000"...)
	}
	sum := sha256.Sum256(list)
	return hex.AppendEncode(b, sum[:6])
}

type helloKey struct{}

type hello struct {
	ja4  *[]byte
	quic bool
}

func readHello(h *tls.ClientHelloInfo) (*tls.Config, error) {
	if to, ok := h.Context().Value(helloKey{}).(hello); ok {
		*to.ja4 = JA4(h, to.quic)
	}
	return nil, nil
}

// Context makes a handshake of Certificates write its fingerprint to ja4 before it ends; quic as in JA4.
func Context(ctx context.Context, ja4 *[]byte, quic bool) context.Context {
	return context.WithValue(ctx, helloKey{}, hello{ja4, quic})
}
