// Package picture draws what challenges show: digits, in one of several styles, and dots whose movement alone shows
// directions. The same seed and level give the same picture.
package picture

import (
	"hash/fnv"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
)

// MaxLevel is the hardest level; 0 is the easiest.
const MaxLevel = 3

// ink is the index of the digits in the source and in the result; noise is that of everything else.
const ink, noise = 1, 2

// painter decides which pixels of a bent picture are ink.
type painter func(c *canvas, x, y int) bool

var painters = [...]painter{
	func(c *canvas, x, y int) bool { return c.at(x, y) },                                     // plain
	func(c *canvas, x, y int) bool { return c.at(x, y) && !c.inside(x, y) },                  // outline
	func(c *canvas, x, y int) bool { return c.at(x, y) && ((x+y)%7 > 2 || !c.inside(x, y)) }, // stripes
	func(c *canvas, x, y int) bool { return c.at(x, y) != c.band(x, y) },                     // split
	func(c *canvas, x, y int) bool { return c.at(x, y) != (c.coin(x/2, y/2) < 9) },           // grain
}

type canvas struct {
	from  *image.Paletted
	bent  []uint8 // its pixels, bent, without margins
	w, h  int
	r     *rand.Rand
	seed  uint64
	edge  int // of the band, at the top
	slope float64
}

// Digits draws the digits of from, its pixels with index 1, in the style that the seed chooses. The background is
// transparent and the ink dark: the page puts something light behind.
func Digits(from *image.Paletted, level uint8, seed string) *image.Paletted {
	return draw(from, nil, level, seed)
}

// draw draws in a style, or with nil in the one that the seed chooses.
func draw(from *image.Paletted, paint painter, level uint8, seed string) *image.Paletted {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed))
	b := from.Bounds()
	r := rand.New(rand.NewPCG(h.Sum64(), 1)) //nolint:gosec // no secret: the answer is in the picture
	c := &canvas{from: from, w: b.Dx(), h: b.Dy(), seed: h.Sum64(), r: r}
	if chosen := painters[c.r.IntN(len(painters))]; paint == nil {
		paint = chosen
	}
	c.bend(level)
	out := image.NewPaletted(image.Rect(0, 0, c.w, c.h), c.colours())
	for y := range c.h {
		for x := range c.w {
			switch {
			case paint(c, x, y):
				out.Pix[y*out.Stride+x] = ink
			case c.bent[y*c.w+x] > ink:
				out.Pix[y*out.Stride+x] = noise
			}
		}
	}
	for range (level + 1) / 2 {
		c.arc(out)
	}
	return out
}

func (c *canvas) colours() color.Palette {
	dark := func(most int) color.RGBA {
		return color.RGBA{
			uint8(c.r.IntN(most)), uint8(c.r.IntN(most)), uint8(c.r.IntN(most)), 255,
		} //nolint:gosec // below 256
	}
	pale := dark(60)
	pale.R, pale.G, pale.B = pale.R+110, pale.G+110, pale.B+110
	return color.Palette{color.RGBA{}, dark(70), pale}
}

// bend sends waves through the picture, higher with the level.
func (c *canvas) bend(level uint8) {
	wave := func(n int, high, long float64) []int {
		phase := c.r.Float64() * 2 * math.Pi
		out := make([]int, n)
		for i := range out {
			out[i] = int(math.Round(high * math.Sin(phase+float64(i)*2*math.Pi/long)))
		}
		return out
	}
	across := wave(c.h, 2*float64(level), 80+40*c.r.Float64())
	down := wave(c.w, 2*float64(level), 180+80*c.r.Float64())
	c.slope = 0.5 + c.r.Float64()
	c.edge = c.w/4 + c.r.IntN(max(1, c.w/4))
	c.bent = make([]uint8, c.w*c.h)
	from := c.from.Bounds().Min
	for y := range c.h {
		for x := range c.w {
			if u, v := x+across[y], y+down[x]; u >= 0 && v >= 0 && u < c.w && v < c.h {
				c.bent[y*c.w+x] = c.from.ColorIndexAt(from.X+u, from.Y+v)
			}
		}
	}
}

func (c *canvas) at(x, y int) bool {
	return x >= 0 && y >= 0 && x < c.w && y < c.h && c.bent[y*c.w+x] == ink
}

// inside reports whether a place is surrounded by ink.
func (c *canvas) inside(x, y int) bool {
	return c.at(x-rim, y) && c.at(x+rim, y) && c.at(x, y-rim) && c.at(x, y+rim)
}

const rim = 2 // pixels of a contour

// band reports whether a place lies in the slanting band where ink and paper change places.
func (c *canvas) band(x, y int) bool {
	from := c.edge + int(c.slope*float64(y))
	return x >= from && x < from+c.w/3
}

// coin is a number from 0 to 99 that belongs to a place.
func (c *canvas) coin(x, y int) uint64 {
	const odd = 0x9e3779b97f4a7c15                  // the golden ratio: spreads a small number over all bits
	h := (c.seed ^ uint64(x)<<32 ^ uint64(y)) * odd //nolint:gosec // places are small and not negative
	h ^= h >> 29
	return h * odd >> 32 % 100
}

func (c *canvas) arc(out *image.Paletted) {
	b := out.Bounds()
	mid, high := float64(b.Dy())*(0.3+0.4*c.r.Float64()), float64(b.Dy())*(0.1+0.2*c.r.Float64())
	phase, long := c.r.Float64()*2*math.Pi, float64(b.Dx())*(0.5+c.r.Float64())
	for x := b.Min.X; x < b.Max.X; x++ {
		y := int(mid + high*math.Sin(phase+float64(x)*2*math.Pi/long))
		for d := range 3 {
			out.SetColorIndex(x, y+d, ink)
		}
	}
}
