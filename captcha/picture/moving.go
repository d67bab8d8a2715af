package picture

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"image/gif"
	"math/rand/v2"
)

// Moves is how many directions one picture shows.
const Moves = 3

// The directions, as a keypad of digits has them.
const (
	up    = 8
	down  = 2
	left  = 4
	right = 6
)

// Directions lists them all.
var Directions = [...]byte{up, down, left, right}

var shifts = map[byte]image.Point{up: {0, -1}, down: {0, 1}, left: {-1, 0}, right: {1, 0}}

const (
	size    = 48 // cells of a side; pages show it larger
	radius  = 16
	frames  = 9  // of one direction
	pause   = 4  // frames of rest after each direction
	delay   = 11 // hundredths of a second between frames
	density = 45 // percent of the cells that are dots
)

// Moving draws the moves as a GIF that repeats: dots drift across a disc in one direction after another, while the
// dots around it drift elsewhere, and each frame alone is noise. At a higher level more dots change at random between
// frames.
func Moving(moves []byte, level uint8, seed string) ([]byte, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed))
	r := rand.New(rand.NewPCG(h.Sum64(), 2)) //nolint:gosec // no secret: the answer is in the picture
	var g gif.GIF
	flicker := 4 + 4*int(level)
	for _, m := range moves {
		step, ok := shifts[m]
		if !ok {
			return nil, fmt.Errorf("draw a drift: %d is no direction", m)
		}
		inside, around := texture(r), texture(r)
		away := shifts[Directions[r.IntN(len(Directions))]]
		for f := range frames {
			g.Image = append(g.Image, frame(r, inside, around, step.Mul(f), away.Mul(f), flicker))
			g.Delay = append(g.Delay, delay)
		}
		g.Delay[len(g.Delay)-1] += pause * delay
	}
	g.Delay[len(g.Delay)-1] += pause * delay // a longer rest tells the end
	var buf bytes.Buffer
	err := gif.EncodeAll(&buf, &g)
	return buf.Bytes(), err
}

type cells [size * size]bool

func texture(r *rand.Rand) *cells {
	var c cells
	for i := range c {
		c[i] = r.IntN(100) < density
	}
	return &c
}

// at reads the cells as a torus.
func (c *cells) at(p image.Point) bool {
	return c[(p.Y%size+size)%size*size+(p.X%size+size)%size]
}

// paper and dots are readable on light pages and do not glare on dark ones.
var (
	paper = color.RGBA{0xc3, 0xc9, 0xd1, 255}
	dots  = color.RGBA{0x24, 0x2c, 0x38, 255}
)

func frame(r *rand.Rand, inside, around *cells, moved, elsewhere image.Point, flicker int) *image.Paletted {
	out := image.NewPaletted(image.Rect(0, 0, size, size), color.Palette{paper, dots})
	for y := range size {
		for x := range size {
			p := image.Pt(x, y)
			on := around.at(p.Sub(elsewhere))
			if inDisc(p) {
				on = inside.at(p.Sub(moved))
			}
			if r.IntN(100) < flicker {
				on = r.IntN(100) < density
			}
			if on {
				out.Pix[y*out.Stride+x] = 1
			}
		}
	}
	return out
}

func inDisc(p image.Point) bool {
	d := p.Sub(image.Pt(size/2, size/2))
	return d.X*d.X+d.Y*d.Y < radius*radius
}
