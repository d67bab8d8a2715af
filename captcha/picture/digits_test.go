//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package picture

import (
	"bytes"
	"image"
	"image/color"
	"slices"
	"strconv"
	"testing"

	"github.com/dchest/captcha"
)

// drawn is a picture of digits as the gateway makes it.
func drawn(seed string, style painter, level uint8) *image.Paletted {
	digits := make([]byte, 6)
	for i := range digits {
		digits[i] = (seed[i%len(seed)] + byte(i)*7) % 10
	}
	return draw(captcha.NewImage(seed, digits, 2*captcha.StdWidth, 2*captcha.StdHeight).Paletted, style, level, seed)
}

// TestStylesDiffer: the same digits look different in each style and at each level, and the same each time.
func TestStylesDiffer(t *testing.T) {
	var seen [][]byte
	for name, style := range painters {
		for level := range uint8(MaxLevel + 1) {
			p := drawn("seed", style, level)
			if !bytes.Equal(p.Pix, drawn("seed", style, level).Pix) {
				t.Errorf("style %d, level %d: another picture each time", name, level)
			}
			if slices.ContainsFunc(seen, func(b []byte) bool { return bytes.Equal(b, p.Pix) }) {
				t.Errorf("style %d, level %d: the same picture as another", name, level)
			}
			seen = append(seen, p.Pix)
			share := float64(bytes.Count(p.Pix, []byte{ink})) / float64(len(p.Pix))
			if share < 0.02 || share > 0.6 {
				t.Errorf("style %d, level %d: %.0f %% ink", name, level, 100*share)
			}
		}
	}
}

// TestInkIsDark: the ink is dark enough to be read on what the page puts behind it, in light and in dark mode.
func TestInkIsDark(t *testing.T) {
	for i := range 50 {
		p := drawn("i"+strconv.Itoa(i), painters[0], 0).Palette
		if _, _, _, alpha := p[0].RGBA(); alpha != 0 {
			t.Fatal("the background is not transparent")
		}
		if y := color.GrayModel.Convert(p[ink]).(color.Gray).Y; y > 80 {
			t.Errorf("ink of brightness %d", y)
		}
	}
}
