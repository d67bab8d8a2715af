//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package picture

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/dchest/captcha"
)

// drawn is a picture of digits as the gateway makes it.
func drawn(seed, name string, level uint8) *image.Paletted {
	digits := make([]byte, 6)
	for i := range digits {
		digits[i] = (seed[i%len(seed)] + byte(i)*7) % 10
	}
	return Digits(
		captcha.NewImage(seed, digits, 2*captcha.StdWidth, 2*captcha.StdHeight).Paletted, []string{name}, level, seed,
	)
}

// TestStylesDiffer: the same digits look different in each style and at each level, and the same each time.
func TestStylesDiffer(t *testing.T) {
	var seen [][]byte
	for _, name := range Styles() {
		for level := range uint8(MaxLevel + 1) {
			p := drawn("seed", name, level)
			if !bytes.Equal(p.Pix, drawn("seed", name, level).Pix) {
				t.Errorf("%s, level %d: another picture each time", name, level)
			}
			if slices.ContainsFunc(seen, func(b []byte) bool { return bytes.Equal(b, p.Pix) }) {
				t.Errorf("%s, level %d: the same picture as another", name, level)
			}
			seen = append(seen, p.Pix)
			share := float64(bytes.Count(p.Pix, []byte{ink})) / float64(len(p.Pix))
			if share < 0.02 || share > 0.6 {
				t.Errorf("%s, level %d: %.0f %% ink", name, level, 100*share)
			}
		}
	}
}

// TestStyleIsChosenBySeed: every configured style comes up, and no other.
func TestStyleIsChosenBySeed(t *testing.T) {
	plain, outline, other := 0, 0, 0
	for i := range 40 {
		seed := "s" + strconv.Itoa(i)
		from := captcha.NewImage(seed, []byte{1, 2, 3, 4, 5, 6}, 2*captcha.StdWidth, 2*captcha.StdHeight).Paletted
		switch got := Digits(from, []string{"plain", "outline"}, 0, seed).Pix; {
		case bytes.Count(got, []byte{ink}) == bytes.Count(from.Pix, []byte{ink}):
			plain++
		case bytes.Count(got, []byte{ink}) < bytes.Count(from.Pix, []byte{ink}):
			outline++
		default:
			other++
		}
	}
	if plain < 8 || outline < 8 || other > 0 {
		t.Errorf("%d plain, %d outlines, %d others", plain, outline, other)
	}
}

// TestInkIsDark: the ink is dark enough to be read on what the page puts behind it, in light and in dark mode.
func TestInkIsDark(t *testing.T) {
	for i := range 50 {
		p := drawn("i"+strconv.Itoa(i), "plain", 0).Palette
		if _, _, _, alpha := p[0].RGBA(); alpha != 0 {
			t.Fatal("the background is not transparent")
		}
		if y := color.GrayModel.Convert(p[ink]).(color.Gray).Y; y > 80 {
			t.Errorf("ink of brightness %d", y)
		}
	}
}

func TestCheckStyles(t *testing.T) {
	for _, bad := range [][]string{nil, {"plain", "fancy"}} {
		if CheckStyles(bad) == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
	if err := CheckStyles(Styles()); err != nil {
		t.Error(err)
	}
}

// TestSheets writes sheets of all styles and levels to the directory SHEETS, for people to look at.
func TestSheets(t *testing.T) {
	dir := os.Getenv("SHEETS")
	if dir == "" {
		dir = t.TempDir()
	}
	sheet := image.NewRGBA(image.Rect(0, 0, 4*490, len(Styles())*170))
	draw.Draw(sheet, sheet.Bounds(), image.NewUniform(color.RGBA{201, 207, 215, 255}), image.Point{}, draw.Src)
	for row, name := range Styles() {
		for level := range uint8(MaxLevel + 1) {
			p := drawn("sheet"+strconv.Itoa(row), name, level)
			at := image.Pt(int(level)*490+5, row*170+5)
			draw.Draw(sheet, p.Bounds().Add(at), p, image.Point{}, draw.Over)
		}
	}
	f, err := os.Create(filepath.Join(dir, "styles.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, sheet); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkDigits(b *testing.B) {
	for _, name := range Styles() {
		b.Run(name, func(b *testing.B) {
			size := 0
			for range b.N {
				var buf bytes.Buffer
				if err := png.Encode(&buf, drawn("bench", name, MaxLevel)); err != nil {
					b.Fatal(err)
				}
				size = buf.Len()
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}
