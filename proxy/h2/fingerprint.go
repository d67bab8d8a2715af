package h2

import (
	"encoding/binary"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// fingerprint records settings, first window update, priorities, and the order of the first request's pseudo fields
// (Shuster, «Passive Fingerprinting of HTTP/2 Clients», 2017), from a copy of the first frames. Overlong frames are
// cut.
type fingerprint struct {
	payload    []byte // of the frame
	settings   []byte
	window     uint32
	priorities []byte
	text       []byte // the result; nil: none
	done       bool
}

// Bounds in bytes.
const (
	keptPayload = 2 << 10
	keptPrint   = 160
)

func (f *fingerprint) take(p []byte) {
	if !f.done {
		f.payload = append(f.payload, p[:min(len(p), keptPayload-len(f.payload))]...)
	}
}

func (f *fingerprint) frame(t http2.FrameType, flags http2.Flags, stream uint32) {
	if f.done {
		return
	}
	p := f.payload
	switch t {
	case http2.FrameSettings:
		if f.settings == nil && !flags.Has(http2.FlagSettingsAck) {
			f.settings = appendSettings(nil, p)
		}
	case http2.FrameWindowUpdate:
		if len(p) == 4 && stream == 0 && f.window == 0 {
			f.window = binary.BigEndian.Uint32(p) & (1<<31 - 1)
		}
	case http2.FramePriority:
		if len(p) == 5 && len(f.priorities) < keptPrint {
			f.priorities = appendPriority(f.priorities, stream, p)
		}
	case http2.FrameHeaders:
		f.end(appendPseudo(nil, block(p, flags)))
	}
	f.payload = f.payload[:0]
}

func (f *fingerprint) end(pseudo []byte) {
	b := append(append(make([]byte, 0, 64), f.settings...), '|')
	if f.window == 0 {
		b = append(b, "00"...)
	} else {
		b = strconv.AppendUint(b, uint64(f.window), 10)
	}
	b = append(b, '|')
	if len(f.priorities) == 0 {
		b = append(b, '0')
	}
	b = append(append(append(b, f.priorities...), '|'), pseudo...)
	*f = fingerprint{text: b[:min(len(b), keptPrint)], done: true}
}

// appendSettings appends the settings in order, without reserved ones (as in RFC 8701).
func appendSettings(b, p []byte) []byte {
	for ; len(p) >= 6; p = p[6:] {
		id := binary.BigEndian.Uint16(p)
		if id&0x0f0f == 0x0a0a || len(b) > keptPrint {
			continue
		}
		if len(b) > 0 {
			b = append(b, ';')
		}
		b = append(strconv.AppendUint(b, uint64(id), 10), ':')
		b = strconv.AppendUint(b, uint64(binary.BigEndian.Uint32(p[2:])), 10)
	}
	return b
}

func appendPriority(b []byte, stream uint32, p []byte) []byte {
	if len(b) > 0 {
		b = append(b, ',')
	}
	parent := binary.BigEndian.Uint32(p)
	b = append(strconv.AppendUint(b, uint64(stream), 10), ':', byte('0'+parent>>31), ':')
	b = append(strconv.AppendUint(b, uint64(parent&(1<<31-1)), 10), ':')
	return strconv.AppendUint(b, uint64(p[4])+1, 10)
}

// block is the header block of a HEADERS frame.
func block(p []byte, flags http2.Flags) []byte {
	if flags.Has(http2.FlagHeadersPadded) && len(p) > 0 {
		padding := int(p[0])
		p = p[1:]
		p = p[:max(len(p)-padding, 0)]
	}
	if flags.Has(http2.FlagHeadersPriority) {
		p = p[min(5, len(p)):]
	}
	return p
}

// appendPseudo appends the initials of the pseudo fields in order. The first header block depends on no earlier state.
func appendPseudo(b, compressed []byte) []byte {
	var over bool
	d := hpack.NewDecoder(4<<10, func(f hpack.HeaderField) {
		over = over || !f.IsPseudo()
		if over || len(f.Name) < 2 || strings.IndexByte("masp", f.Name[1]) < 0 || len(b) > 8 {
			return
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(b, f.Name[1])
	})
	d.SetMaxStringLength(keptPayload)
	_, _ = d.Write(compressed) // http2.Server reports errors
	return b
}
