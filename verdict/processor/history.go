package processor

import "math"

// What is remembered of the counters.
const (
	historyPagesDay = iota
	historyPagesFortnight
	historyAddressFortnight
	historyNetworkFortnight
	historyAddressBad
	historyNetworkBad
	historyAddressGood
	historyCount
)

// history is what the counters of the store have said about a subject, when they were asked last. A number n stands as
// a byte: 8 × log2(1+n) rounded, and one; 0 is unknown. That is within 5 % up to two thousand million.
type history [historyCount]uint8

func (h *history) set(i int, n uint64) {
	h[i] = uint8(min(math.Round(8*math.Log2(1+float64(n))), math.MaxUint8-1)) + 1
}

func (h *history) value(i int) float32 {
	if h[i] == 0 {
		return nan
	}
	return float32(math.Round(math.Exp2(float64(h[i]-1)/8) - 1))
}
