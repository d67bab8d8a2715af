package geo

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// writer makes a small MMDB: a binary tree over the bits of IPv6 addresses, IPv4 being ::/96, and records.
type writer struct {
	nodes [][2]int // children; below zero: ^offset of a record; 0: nothing
	data  []byte
}

func newWriter() *writer { return &writer{nodes: make([][2]int, 1)} }

// add puts a record at a network. Networks may not overlap.
func (w *writer) add(network string, record any) {
	p := netip.MustParsePrefix(network)
	addr, bits := p.Addr().As16(), p.Bits()
	if p.Addr().Is4() {
		addr, bits = [16]byte{}, bits+96
		v4 := p.Addr().As4()
		copy(addr[12:], v4[:])
	}
	offset := len(w.data)
	w.data = appendValue(w.data, record)
	at := 0
	for i := range bits - 1 {
		bit := addr[i/8] >> (7 - i%8) & 1
		if w.nodes[at][bit] == 0 {
			w.nodes = append(w.nodes, [2]int{})
			w.nodes[at][bit] = len(w.nodes) - 1
		}
		at = w.nodes[at][bit]
	}
	last := bits - 1
	w.nodes[at][addr[last/8]>>(7-last%8)&1] = ^offset
}

// bytes returns the file.
func (w *writer) bytes() []byte {
	var out []byte
	n := len(w.nodes)
	for _, node := range w.nodes {
		for _, child := range node {
			switch {
			case child == 0:
				child = n
			case child < 0:
				child = n + 16 + ^child
			}
			out = append(out, byte(child>>16), byte(child>>8), byte(child))
		}
	}
	out = append(out, make([]byte, 16)...)
	out = append(out, w.data...)
	out = append(out, marker...)
	return appendValue(out, map[string]any{
		"binary_format_major_version": uint16(
			2,
		), "binary_format_minor_version": uint16(0), "build_epoch": uint64(1), "database_type": "Test",
		"description": map[string]any{
			"en": "test",
		}, "ip_version": uint16(6), "languages": []any{}, "node_count": uint32(n), "record_size": uint16(24),
	})
}

// appendValue encodes a value of a record. Texts are shorter than 29 bytes, but for one length byte.
func appendValue(dst []byte, v any) []byte {
	number := func(kind byte, n uint64) []byte {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], n)
		digits := b[:]
		for len(digits) > 0 && digits[0] == 0 {
			digits = digits[1:]
		}
		return append(head(dst, kind, len(digits)), digits...)
	}
	switch v := v.(type) {
	case string:
		return append(head(dst, 2, len(v)), v...)
	case uint16:
		return number(5, uint64(v))
	case uint32:
		return number(6, uint64(v))
	case uint64:
		return number(9, v)
	case []any:
		return head(dst, 11, 0)
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		dst = head(dst, 7, len(keys))
		for _, k := range keys {
			dst = appendValue(appendValue(dst, k), v[k])
		}
		return dst
	}
	panic("no such type")
}

func head(dst []byte, kind byte, size int) []byte {
	control, more := byte(size), []byte(nil)
	if size >= 29 {
		control, more = 29, []byte{byte(size - 29)}
	}
	if kind > 7 {
		return append(append(dst, control, kind-7), more...)
	}
	return append(append(dst, kind<<5|control), more...)
}
