package upstream

// records tracks TLS record boundaries (RFC 8446, section 5.1).
type records struct {
	header [5]byte
	have   int // of the header
	body   int // left of the record
}

// pass notes bytes of the stream.
func (r *records) pass(p []byte) {
	for len(p) > 0 {
		if r.body > 0 {
			n := min(r.body, len(p))
			r.body -= n
			p = p[n:]
			continue
		}
		n := copy(r.header[r.have:], p)
		r.have += n
		p = p[n:]
		if r.have == len(r.header) {
			r.body, r.have = int(r.header[3])<<8|int(r.header[4]), 0
		}
	}
}

func (r *records) whole() bool { return r.have == 0 && r.body == 0 }
