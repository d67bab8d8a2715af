package client

import (
	"math"
	"time"
)

// Lag is a time of up to a minute, to a few per cent of it, in one byte: the logarithm of the milliseconds. The zero value is
// not known.
type Lag uint8

const lagSteps = 16 // for each doubling

// LagOf returns the Lag of a time; one of 0 is not known.
func LagOf(d time.Duration) Lag {
	if d <= 0 {
		return 0
	}
	return Lag(min(1+math.Round(lagSteps*math.Log2(1+float64(d)/float64(time.Millisecond))), math.MaxUint8))
}

// Milliseconds returns the time, which is known.
func (l Lag) Milliseconds() float32 { return float32(math.Exp2(float64(l-1)/lagSteps) - 1) }
