package verdict

import (
	"fmt"
	"testing"
	"time"

	"antirobot/cbb"
	"antirobot/request"
)

// TestAskedPagesLookRight: whoever is asked gets the styles, scripts and fonts that answers have shown to be parts of pages, and
// the site's icon; nothing else, no more than goes with a document, and nothing for whoever is blocked.
func TestAskedPagesLookRight(t *testing.T) {
	w := newWorld(t, func(o *options) { o.Config.Pass.Parts = 4 })
	s := service(t)
	for _, path := range []string{"/app.js", "/site.css", "/text.woff2", "/1.webp"} {
		w.paths.answered(w.paths.keyOf(s, &request.View{Path: []byte(path)}), readingPart)
	}
	for _, path := range []string{"/catalogue", "/prices.js", "/apple-touch-icon.png"} {
		w.paths.answered(w.paths.keyOf(s, &request.View{Path: []byte(path)}), readingDocument)
	}
	w.ban(ip("192.0.2.1"))
	f := func(target string, want Verdict) {
		t.Helper()
		var method, path string
		if _, err := fmt.Sscan(target, &method, &path); err != nil {
			t.Fatal(err)
		}
		v, id := newRequest(w.now(), "192.0.2.1")
		v.Method, v.Path = []byte(method), []byte(path)
		d := &Decision{}
		w.Decide(d, v, id, s)
		if d.Verdict != want || (d.Verdict == Human) != (d.Waived == WaivedLooks) || want == Human && d.Told() != Robot {
			t.Errorf("%s: %v, %q, the service is told %v", target, d.Verdict, d.Waived, d.Told())
		}
	}
	f("GET /app.js", Human)
	f("HEAD /site.css", Human)
	f("GET /favicon.ico", Human)
	f("POST /app.js", Robot)
	f("GET /catalogue", Robot)
	f("GET /prices.js", Robot)
	f("GET /1.webp", Robot)
	f("GET /new.js", Robot)                // nobody has seen it
	f("GET /apple-touch-icon.png", Robot)  // a page in its place
	f("GET /catalogue/..%2fapp.js", Robot) // no style in another reading
	f("GET /text.woff2", Human)
	f("GET /app.js", Robot) // four in this minute
	w.clock.advance(time.Minute)
	f("GET /app.js", Human)
	w.lists.Block = &cbb.Entry{List: "drop"}
	f("GET /app.js", Blocked)
}
