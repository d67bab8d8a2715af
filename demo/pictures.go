package demo

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// pictureNames are the pictures of the gallery; the articles use some of them. Each is drawn from its name alone.
var pictureNames = [...]string{
	"lighthouse", "river", "bread", "dawn", "fjord", "dunes", "meadow", "harbour", "glacier", "forest", "valley",
	"dusk",
}

// Size of a picture in pixels.
const (
	pictureW = 480
	pictureH = 300
)

// gallery draws each picture once, on its first request.
type gallery struct {
	drawn map[string]func() drawing
}

type drawing struct {
	png []byte
	tag string
}

func newGallery() *gallery {
	g := &gallery{drawn: map[string]func() drawing{}}
	for _, name := range pictureNames {
		g.drawn[name] = sync.OnceValue(func() drawing { return draw(name) })
	}
	return g
}

// draw paints hills under a sky with a sun, in a palette of few colours, so that the file stays small.
func draw(name string) drawing {
	seed := sha256.Sum256([]byte("demo picture " + name))
	rnd := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])))
	const skies, hills = 12, 5
	hue := rnd.Float64()
	var colours color.Palette
	for i := range skies {
		colours = append(colours, hsl(hue+0.02*float64(i), 0.45, 0.72+0.018*float64(i)))
	}
	for i := range hills {
		colours = append(colours, hsl(hue+0.45+0.04*float64(i), 0.30, 0.62-0.1*float64(i)))
	}
	sun := uint8(len(colours))
	colours = append(colours, hsl(hue+0.12, 0.85, 0.93))

	img := image.NewPaletted(image.Rect(0, 0, pictureW, pictureH), colours)
	sunX, sunY, sunR := 60+rnd.Float64()*(pictureW-120), 50+rnd.Float64()*60, 22+rnd.Float64()*16
	for y := range pictureH {
		for x := range pictureW {
			c := uint8(y * skies / pictureH)
			if math.Hypot(float64(x)-sunX, float64(y)-sunY) < sunR {
				c = sun
			}
			img.Pix[y*img.Stride+x] = c
		}
	}
	for i := range hills {
		base := 0.42 + 0.12*float64(i)
		a, b := rnd.Float64()*6.3, rnd.Float64()*6.3
		f, g := 1+rnd.Float64()*2, 3+rnd.Float64()*4
		for x := range pictureW {
			u := float64(x) / pictureW
			top := pictureH * (base + 0.09*math.Sin(f*u*2*math.Pi+a) + 0.03*math.Sin(g*u*2*math.Pi+b))
			for y := max(0, int(top)); y < pictureH; y++ {
				img.Pix[y*img.Stride+x] = uint8(skies + i)
			}
		}
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		panic("BUG: " + err.Error())
	}
	sum := sha256.Sum256(buf.Bytes())
	return drawing{buf.Bytes(), `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// hsl converts hue, saturation and lightness, each within 0..1 (the hue wraps around).
func hsl(h, s, l float64) color.RGBA {
	h -= math.Floor(h)
	part := func(n float64) uint8 {
		k := math.Mod(n+h*12, 12)
		v := l - s*math.Min(l, 1-l)*math.Max(-1, math.Min(math.Min(k-3, 9-k), 1))
		return uint8(math.Round(v * 255))
	}
	return color.RGBA{part(0), part(8), part(4), 255}
}

// picture serves /pictures/NAME.png. Browsers revalidate each time, so that the gateway sees sub-resource requests.
func (s *site) picture(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutSuffix(r.PathValue("file"), ".png")
	paint := s.pictures.drawn[name]
	if !ok || paint == nil {
		s.missing(w, r)
		return
	}
	d := paint()
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", d.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.png))
}

func (s *site) showGallery(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, http.StatusOK, "gallery", pictureNames[:])
}
