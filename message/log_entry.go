package message

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"time"

	"antirobot/message/varint"
	"antirobot/rules"
)

// appendEntry writes an entry: its ID, time, tags and attributes.
func appendEntry(dst []byte, id int64, at time.Time, tag string, r *rules.Run, m *Message, o *Opinion) []byte {
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
	if o == nil {
		dst = binary.AppendUvarint(dst, uint64(len(m.attributes)))
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(m.attributes)+1))
		dst = appendOpinion(dst, o)
	}
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

// opinionKind stands where the kind of an attribute does, for what a model said of the message.
const opinionKind = 0xff

func appendOpinion(dst []byte, o *Opinion) []byte {
	dst = append(varint.AppendText(dst, ""), opinionKind)
	dst = binary.AppendVarint(dst, int64(math.Round(o.Score*1e6)))
	dst = binary.AppendUvarint(varint.AppendText(dst, o.By), uint64(len(o.Reasons)))
	for _, reason := range o.Reasons {
		dst = varint.AppendText(dst, reason)
	}
	return dst
}

func readOpinion(r *varint.Reader) *Opinion {
	o := &Opinion{Score: float64(r.Signed()) / 1e6, By: r.Text()}
	for range r.Count() {
		o.Reasons = append(o.Reasons, r.Text())
	}
	return o
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
		kind := r.Byte()
		if kind == opinionKind {
			e.Opinion = readOpinion(&r)
			continue
		}
		a.Value.Kind = rules.Kind(kind)
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
