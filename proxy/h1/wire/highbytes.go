package wire

// Treatments of bytes from 0x80 in a target, which RFC 3986 forbids and old clients send.
const (
	HighPass   = "pass"
	HighEncode = "encode"
	HighRefuse = "refuse"
)

// TreatHigh applies HighPass, HighEncode or HighRefuse to the parsed target of at most most bytes. An error is a
// Refusal.
func (h *Head) TreatHigh(how string, most int64) error {
	if how == HighPass {
		return nil
	}
	high := 0
	for _, c := range h.Target {
		if c >= 0x80 {
			high++
		}
	}
	switch {
	case high == 0:
		return nil
	case how == HighRefuse:
		return BadTarget
	case int64(len(h.Target)+2*high) > most:
		return TargetTooLong
	}
	const digits = "0123456789ABCDEF"
	escaped := make([]byte, 0, len(h.Target)+2*high)
	for _, c := range h.Target {
		if c < 0x80 {
			escaped = append(escaped, c)
		} else {
			escaped = append(escaped, '%', digits[c>>4], digits[c&15])
		}
	}
	h.Target = escaped
	return nil
}
