package demo

import (
	"bytes"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

// Made-up visitors (package traffic) read a made-up shop of numbered pages. It is served with the types of a real one,
// so that the gateway can tell pages from their parts; no page of the site links to it.

// shopTypes are the types of the parts of the shop's pages.
var shopTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".woff2": "font/woff2", ".webp": "image/webp",
	".ico": "image/x-icon",
}

// shop serves a page, a part or a call of the made-up shop, and reports false for anything else.
func (s *site) shop(w http.ResponseWriter, r *http.Request) bool {
	at := r.URL.Path
	part := shopTypes[path.Ext(at)]
	w.Header().Set("Cache-Control", "no-cache")
	switch {
	case r.Method != http.MethodGet:
		return false
	case part != "" && (strings.HasPrefix(at, "/pictures/") || strings.HasPrefix(at, "/static/") ||
		at == "/favicon.ico"):
		w.Header().Set("Content-Type", part)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.pictures.drawn[pictureNames[0]]().png))
	case at == "/api/price":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"of": %q, "price": %d}`, clip(r.URL.Query().Get("of"), 8), 100+len(r.URL.RawQuery))
	case strings.HasPrefix(at, "/shop/"), strings.HasPrefix(at, "/article/"):
		s.render(w, r, http.StatusOK, "shop", path.Base(at))
	default:
		return false
	}
	return true
}
