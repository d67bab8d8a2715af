package hello

import (
	"crypto/tls"
	"testing"
)

// TestJA4: the example of the specification (technical_details/JA4.md) has known hashes for both lists.
func TestJA4(t *testing.T) {
	chrome := &tls.ClientHelloInfo{
		CipherSuites: []uint16{
			0x2a2a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014, 0x009c,
			0x009d, 0x002f, 0x0035,
		},
		Extensions: []uint16{
			0x5a5a, 0x001b, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002d, 0x000d, 0x0005, 0x0023, 0x0012, 0x002b,
			0xff01, 0x000b, 0x000a, 0x0015,
			0xeaea,
		},
		SupportedVersions: []uint16{0x6a6a, 0x0304, 0x0303},
		SupportedProtos:   []string{"h2", "http/1.1"},
		SignatureSchemes:  []tls.SignatureScheme{0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601},
	}
	f := func(want string, edit func(h *tls.ClientHelloInfo)) {
		t.Helper()
		h := *chrome
		edit(&h)
		if got := string(JA4(&h, false)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	f("t13d1516h2_8daaf6152771_e5627efa2ab1", func(*tls.ClientHelloInfo) {})
	f("t12d1516h1_8daaf6152771_e5627efa2ab1", func(h *tls.ClientHelloInfo) {
		h.SupportedVersions, h.SupportedProtos = []uint16{0x0303, 0x0301}, []string{"http/1.1"}
	})
	f("t13d151600_8daaf6152771_e5627efa2ab1", func(h *tls.ClientHelloInfo) { h.SupportedProtos = nil })
	f("t13d151666_8daaf6152771_e5627efa2ab1", func(h *tls.ClientHelloInfo) { h.SupportedProtos = []string{"\x60\x06"} })
	f("t00i000000_000000000000_000000000000", func(h *tls.ClientHelloInfo) { *h = tls.ClientHelloInfo{} })
}

func FuzzJA4(f *testing.F) {
	f.Add([]byte{0x13, 0x01, 0x0a, 0x0a}, "h2")
	f.Add([]byte{}, "\xff")
	f.Fuzz(func(t *testing.T, numbers []byte, protocol string) {
		var list []uint16
		for i := 1; i < len(numbers); i += 2 {
			list = append(list, uint16(numbers[i-1])<<8|uint16(numbers[i]))
		}
		h := &tls.ClientHelloInfo{
			CipherSuites: list, Extensions: list, SupportedVersions: list,
			SupportedProtos: []string{protocol},
		}
		if got := JA4(h, true); len(got) != 36 || got[0] != 'q' {
			t.Errorf("%q", got)
		}
	})
}
