package h1

// What happens to bytes of 0x80 and above in a target, which RFC 3986 does not allow and old clients send.
const (
	highPass   = "pass"
	highEncode = "encode"
	highRefuse = "refuse"
)

// treatHigh applies Config.HighBytes to the target that has been parsed.
func (h *head) treatHigh(cfg *Config) error {
	if cfg.HighBytes == highPass {
		return nil
	}
	high := 0
	for _, c := range h.target {
		if c >= 0x80 {
			high++
		}
	}
	switch {
	case high == 0:
		return nil
	case cfg.HighBytes == highRefuse:
		return badTarget
	case int64(len(h.target)+2*high) > cfg.MaxTargetBytes:
		return targetTooLong
	}
	const digits = "0123456789ABCDEF"
	escaped := make([]byte, 0, len(h.target)+2*high)
	for _, c := range h.target {
		if c < 0x80 {
			escaped = append(escaped, c)
		} else {
			escaped = append(escaped, '%', digits[c>>4], digits[c&15])
		}
	}
	h.target = escaped
	return nil
}
