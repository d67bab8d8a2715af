package wire

// What happens to bytes of 0x80 and above in a target, which RFC 3986 does not allow and old clients send.
const (
	HighPass   = "pass"
	HighEncode = "encode"
	HighRefuse = "refuse"
)

// TreatHigh treats the target that has been parsed as how says: HighPass, HighEncode or HighRefuse. most is how long the target may be
// then, in bytes. An error is a Refusal.
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
