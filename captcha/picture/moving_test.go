package picture

import (
	"bytes"
	"image"
	"image/gif"
	"math"
	"slices"
	"strconv"
	"testing"
)

func moved(t testing.TB, moves []byte, level uint8, seed string) *gif.GIF {
	t.Helper()
	b, err := Moving(moves, level, seed)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gif.DecodeAll(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d frames, %d bytes", len(g.Image), len(b))
	return g
}

// follow finds the shift within the disc that explains the change from frame to frame best.
func follow(g *gif.GIF) (seen []byte) {
	for first := 0; first < len(g.Image); first += frames {
		best, most := byte(0), 0
		for _, d := range Directions {
			same := 0
			for f := first + 1; f < first+frames; f++ {
				for y := range size {
					for x := range size {
						p := image.Pt(x, y)
						if from := p.Sub(shifts[d]); inDisc(p) && inDisc(from) &&
							g.Image[f].ColorIndexAt(x, y) == g.Image[f-1].ColorIndexAt(from.X, from.Y) {
							same++
						}
					}
				}
			}
			if same > most {
				best, most = d, same
			}
		}
		seen = append(seen, best)
	}
	return seen
}

// TestDriftIsSeen: the movement shows the directions, at every level.
func TestDriftIsSeen(t *testing.T) {
	for level := range uint8(4) {
		for i, moves := range [][]byte{{up, left, right}, {down, down, up}, {right, up, left}} {
			if seen := follow(moved(t, moves, level, strconv.Itoa(i))); !slices.Equal(seen, moves) {
				t.Errorf("level %d: %v is seen as %v", level, moves, seen)
			}
		}
	}
}

// TestFramesAreNoise: no frame alone shows the disc: as many dots are in it as around it.
func TestFramesAreNoise(t *testing.T) {
	for i, f := range moved(t, []byte{up, left, down}, 0, "noise").Image {
		var in, out, inside, around float64
		for y := range size {
			for x := range size {
				dot := float64(f.ColorIndexAt(x, y))
				if inDisc(image.Pt(x, y)) {
					in, inside = in+dot, inside+1
				} else {
					out, around = out+dot, around+1
				}
			}
		}
		if d := math.Abs(in/inside - out/around); d > 0.1 {
			t.Errorf("frame %d: %.2f more dots on one side", i, d)
		}
	}
}
