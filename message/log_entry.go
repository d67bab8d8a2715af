package message

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"antirobot/rules"
)

// Entries are written as: id, time, tags, attributes, with lengths and numbers as varints.

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendEntry(dst []byte, id int64, at time.Time, tag string, r *rules.Run, m *Message) []byte {
	dst = binary.AppendVarint(dst, id)
	dst = binary.AppendVarint(dst, at.UnixNano())
	n := r.NumTags()
	if tag != "" {
		dst = appendText(binary.AppendUvarint(dst, uint64(n+1)), tag)
	} else {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for i := range n {
		dst = appendText(dst, r.Tag(i))
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.attributes)))
	for _, a := range m.attributes {
		dst = append(appendText(dst, a.Name), byte(a.Value.Kind))
		switch a.Value.Kind {
		case rules.Text:
			dst = appendText(dst, a.Value.Text)
		case rules.IP:
			dst = appendText(dst, string(a.Value.IP.AsSlice()))
		default:
			dst = binary.AppendVarint(dst, a.Value.Int)
		}
	}
	return dst
}

var errEntry = errors.New("an entry of a message log is not readable")

// entryReader reads what appendEntry wrote; after an error everything is empty.
type entryReader struct {
	src []byte
	bad bool
}

func (r *entryReader) signed() int64 {
	v, n := binary.Varint(r.src)
	if n <= 0 {
		r.bad, r.src = true, nil
		return 0
	}
	r.src = r.src[n:]
	return v
}

// count reads a number that something as long as what is left can have.
func (r *entryReader) count() int {
	v, n := binary.Uvarint(r.src)
	if n <= 0 || v > uint64(len(r.src)-n) {
		r.bad, r.src = true, nil
		return 0
	}
	r.src = r.src[n:]
	return int(v)
}

func (r *entryReader) text() string {
	n := r.count()
	s := string(r.src[:n])
	r.src = r.src[n:]
	return s
}

func readEntry(src []byte) (e Entry, rest []byte, err error) {
	r := entryReader{src: src}
	e.ID = r.signed()
	e.When = time.Unix(0, r.signed())
	for range r.count() {
		e.Tags = append(e.Tags, r.text())
	}
	e.Message = &Message{}
	for range r.count() {
		a := Attribute{Name: r.text()}
		if len(r.src) == 0 {
			return e, nil, errEntry
		}
		a.Value.Kind = rules.Kind(r.src[0])
		r.src = r.src[1:]
		switch a.Value.Kind {
		case rules.Text:
			a.Value.Text = r.text()
		case rules.IP:
			addr, ok := netip.AddrFromSlice([]byte(r.text()))
			a.Value.IP, r.bad = addr, r.bad || !ok
		case rules.Int, rules.UniqueInt:
			a.Value.Int = r.signed()
		default:
			r.bad = true
		}
		if r.bad {
			return e, nil, errEntry
		}
		e.Message.attributes = append(e.Message.attributes, a)
	}
	if r.bad {
		return e, nil, errEntry
	}
	return e, r.src, nil
}
