package message

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"antirobot/message/varint"
	"antirobot/rules"
)

// appendEntry writes an entry: its ID, time, tags and attributes.
func appendEntry(dst []byte, id int64, at time.Time, tag string, r *rules.Run, m *Message) []byte {
	dst = binary.AppendVarint(dst, id)
	dst = binary.AppendVarint(dst, at.UnixNano())
	n := r.NumTags()
	if tag != "" {
		dst = varint.AppendText(binary.AppendUvarint(dst, uint64(n+1)), tag)
	} else {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for i := range n {
		dst = varint.AppendText(dst, r.Tag(i))
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.attributes)))
	for _, a := range m.attributes {
		dst = append(varint.AppendText(dst, a.Name), byte(a.Value.Kind))
		switch a.Value.Kind {
		case rules.Text:
			dst = varint.AppendText(dst, a.Value.Text)
		case rules.IP:
			dst = varint.AppendText(dst, string(a.Value.IP.AsSlice()))
		default:
			dst = binary.AppendVarint(dst, a.Value.Int)
		}
	}
	return dst
}

var errEntry = errors.New("an entry of a message log is not readable")

func readEntry(src []byte) (e Entry, rest []byte, err error) {
	r := varint.Reader{Src: src}
	e.ID = r.Signed()
	e.When = time.Unix(0, r.Signed())
	for range r.Count() {
		e.Tags = append(e.Tags, r.Text())
	}
	e.Message = &Message{}
	for range r.Count() {
		a := attribute{Name: r.Text()}
		a.Value.Kind = rules.Kind(r.Byte())
		switch a.Value.Kind {
		case rules.Text:
			a.Value.Text = r.Text()
		case rules.IP:
			addr, ok := netip.AddrFromSlice([]byte(r.Text()))
			a.Value.IP, r.Bad = addr, r.Bad || !ok
		case rules.Int, rules.UniqueInt:
			a.Value.Int = r.Signed()
		default:
			r.Bad = true
		}
		if r.Bad {
			return e, nil, errEntry
		}
		e.Message.attributes = append(e.Message.attributes, a)
	}
	if r.Bad {
		return e, nil, errEntry
	}
	return e, r.Src, nil
}
