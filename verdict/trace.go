package verdict

import "encoding/hex"

// Trace is the ID of the trace that a request is part of; the zero value: it is not traced.
type Trace [16]byte

// String returns the ID as traces are named, in hexadecimal digits; nothing of the zero value.
func (t Trace) String() string {
	if t == (Trace{}) {
		return ""
	}
	return hex.EncodeToString(t[:])
}

// ParseTrace reads what String returns; false if it is no ID.
func ParseTrace(s string) (t Trace, ok bool) {
	n, err := hex.Decode(t[:], []byte(s[:min(len(s), 2*len(t))]))
	return t, err == nil && n == len(t) && len(s) == 2*n && t != (Trace{})
}
