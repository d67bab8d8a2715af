package sim

import (
	"fmt"
	"strings"
)

// Client is a piece of software that sends requests.
type Client struct {
	UA, Family string // chrome, firefox, safari, ie, tool
	Sec        bool   // sends Sec-Fetch headers on https
	Mobile     bool
	Proto      string // when it does not speak the site's best
	Accept     string // of a tool
}

func chrome(os string, v int) *Client {
	return &Client{UA: fmt.Sprintf("Mozilla/5.0 (%s) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36", os, v), Family: "chrome", Sec: true}
}

func android(model string, v int) *Client {
	c := chrome("Linux; Android 10; "+model, v)
	c.UA = c.UA[:len(c.UA)-len("Safari/537.36")] + "Mobile Safari/537.36"
	c.Mobile = true
	return c
}

func firefox(os string, v int) *Client {
	return &Client{UA: fmt.Sprintf("Mozilla/5.0 (%s; rv:%d.0) Gecko/20100101 Firefox/%d.0", os, v, v), Family: "firefox", Sec: v >= 90}
}

func iphone(ios, ver string) *Client {
	return &Client{UA: "Mozilla/5.0 (iPhone; CPU iPhone OS " + ios + " like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/" + ver + " Mobile/15E148 Safari/604.1", Family: "safari", Sec: ver >= "16.4" && len(ver) > 3, Mobile: true}
}

const (
	win   = "Windows NT 10.0; Win64; x64"
	mac   = "Macintosh; Intel Mac OS X 10_15_7"
	linux = "X11; Linux x86_64"
)

func edge(v int) *Client {
	c := chrome(win, v)
	c.UA += fmt.Sprintf(" Edg/%d.0.0.0", v)
	return c
}

func macSafari(ver string) *Client {
	return &Client{UA: "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/" + ver + " Safari/605.1.15", Family: "safari", Sec: true}
}

// desktop draws a browser of a desk computer.
func desktop(r *Rand) *Client {
	switch r.weighted([]float64{40, 14, 14, 9, 4, 10, 4, 3}) {
	case 0:
		return chrome(win, r.n(138, 141))
	case 1:
		return chrome(mac, r.n(138, 141))
	case 2:
		return edge(r.n(138, 141))
	case 3:
		return firefox(win, r.n(141, 144))
	case 4:
		return firefox(linux, r.n(140, 144))
	case 5:
		return macSafari(pick(r, []string{"17.6", "18.5", "18.6", "26.0"}))
	case 6:
		return chrome(linux, r.n(136, 141))
	}
	c := chrome(win, r.n(136, 139))
	c.UA += " OPR/122.0.0.0"
	return c
}

// phone draws a browser of a phone.
func phone(r *Rand) *Client {
	switch r.weighted([]float64{50, 38, 8, 4}) {
	case 0:
		return android("K", r.n(137, 141))
	case 1:
		v := pick(r, [][2]string{{"18_5", "18.5"}, {"18_6", "18.6"}, {"17_6_1", "17.6"}, {"18_7", "26.0"}, {"16_7_11", "16.6"}})
		return iphone(v[0], v[1])
	case 2:
		c := android("K", r.n(121, 130))
		c.UA = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36"
		return c
	}
	c := firefox("Android 14; Mobile", r.n(141, 144))
	c.Mobile = true
	return c
}

// anyBrowser draws what a visitor of the public web would use.
func anyBrowser(r *Rand) *Client {
	if r.p(0.48) {
		return phone(r)
	}
	return desktop(r)
}

// old draws a browser that is years behind.
func old(r *Rand) *Client {
	switch r.n(0, 4) {
	case 0:
		return &Client{UA: "Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko", Family: "ie", Proto: "HTTP/1.1"}
	case 1:
		c := chrome("Windows NT 6.1; Win64; x64", 109)
		return c
	case 2:
		c := chrome("Windows NT 5.1", 49)
		c.Sec = false
		return c
	case 3:
		return &Client{UA: "Mozilla/5.0 (iPad; CPU OS 12_5_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.1.2 Mobile/15E148 Safari/604.1", Family: "safari", Mobile: true}
	}
	c := firefox("Windows NT 6.1; Win64; x64", 78)
	return c
}

// webview draws the browser inside an app.
func webview(r *Rand) *Client {
	switch r.n(0, 3) {
	case 0:
		return &Client{UA: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/530.0.0.38.71;FBBV/800000000;FBDV/iPhone14,5;FBMD/iPhone;FBSN/iOS;FBSV/18.6;FBSS/3;FBCR/;FBID/phone;FBLC/en_GB;FBOP/80]", Family: "safari", Sec: true, Mobile: true}
	case 1:
		return &Client{UA: "Mozilla/5.0 (Linux; Android 14; SM-A546B Build/UP1A.231005.007; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/140.0.7339.51 Mobile Safari/537.36 Instagram 398.0.0.40.76 Android", Family: "chrome", Sec: true, Mobile: true}
	case 2:
		return &Client{UA: "Mozilla/5.0 (Linux; Android 13; M2101K6G Build/TKQ1.221013.002; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/139.0.7258.158 Mobile Safari/537.36 GSA/16.33.41", Family: "chrome", Sec: true, Mobile: true}
	}
	return &Client{UA: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) GSA/378.0.787 Mobile/15E148 Safari/604.1", Family: "safari", Sec: true, Mobile: true}
}

// headless is an automated browser that says so.
func headless(v int) *Client {
	return &Client{UA: fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/%d.0.0.0 Safari/537.36", v), Family: "chrome", Sec: true}
}

// tool is software that fetches without being a browser.
func tool(ua, accept string) *Client {
	return &Client{UA: ua, Family: "tool", Accept: accept, Proto: "HTTP/1.1"}
}

// heads gives Accept, Sec-Fetch-Mode and Sec-Fetch-Dest of a kind of request.
func (c *Client) heads(kind string) (accept, mode, dest string) {
	if c.Family == "tool" {
		return c.Accept, "", ""
	}
	accept = "*/*"
	switch kind {
	case "doc", "post", "spec":
		accept, mode, dest = c.page(), "navigate", "document"
	case "iframe":
		accept, mode, dest = c.page(), "navigate", "iframe"
	case "style":
		accept, mode, dest = "text/css,*/*;q=0.1", "no-cors", "style"
	case "script":
		mode, dest = "no-cors", "script"
	case "module":
		mode, dest = "cors", "script"
	case "image", "icon":
		accept, mode, dest = c.picture(), "no-cors", "image"
	case "font":
		mode, dest = "cors", "font"
		if c.Family == "firefox" {
			accept = "application/font-woff2;q=1.0,application/font-woff;q=0.9,*/*;q=0.8"
		}
	case "json":
		accept, mode, dest = "application/json, text/plain, */*", "cors", "empty"
	case "ajax":
		accept, mode, dest = "application/json, text/javascript, */*; q=0.01", "cors", "empty"
	case "sse":
		accept, mode, dest = "text/event-stream", "cors", "empty"
	case "beacon", "prefetch":
		mode, dest = "no-cors", "empty"
	case "manifest":
		mode, dest = "cors", "manifest"
	case "sw":
		mode, dest = "same-origin", "serviceworker"
	case "video":
		mode, dest = "no-cors", "video"
	default: // fetch
		mode, dest = "cors", "empty"
	}
	return accept, mode, dest
}

func (c *Client) page() string {
	if !c.Sec && (c.Family == "chrome" || c.Family == "firefox") {
		return "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"
	}
	if strings.Contains(c.UA, "Firefox/128") || strings.Contains(c.UA, "Firefox/115") {
		return "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/png,image/svg+xml,*/*;q=0.8"
	}
	switch c.Family {
	case "chrome":
		return "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7"
	case "ie":
		return "text/html, application/xhtml+xml, image/jxr, */*"
	}
	return "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
}

func (c *Client) picture() string {
	if !c.Sec {
		switch c.Family {
		case "chrome":
			return "image/webp,image/*,*/*;q=0.8"
		case "firefox":
			return "image/webp,*/*"
		case "safari":
			return "image/png,image/svg+xml,image/*;q=0.8,video/*;q=0.8,*/*;q=0.5"
		}
	}
	switch c.Family {
	case "chrome":
		return "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
	case "ie":
		return "image/png, image/svg+xml, image/jxr, image/*; q=0.8, */*; q=0.5"
	case "firefox":
		return "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5"
	}
	return "image/webp,image/avif,image/jxl,image/heic,image/heic-sequence,video/*;q=0.8,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5"
}

// Addresses.

func home(r *Rand) string {
	if r.p(0.22) {
		return fmt.Sprintf("2a02:%x:%x:%x:%x:%x:%x:%x", r.n(0x100, 0xfff), r.n(1, 0xffff), r.n(1, 0xffff), r.n(1, 0xffff), r.n(1, 0xffff), r.n(1, 0xffff), r.n(1, 0xffff))
	}
	return fmt.Sprintf("%d.%d.%d.%d", pick(r, []int{31, 46, 62, 78, 79, 80, 84, 85, 86, 87, 88, 89, 92, 93, 95, 109, 151, 176, 188, 213, 217}), r.n(0, 255), r.n(0, 255), r.n(1, 254))
}

func cell(r *Rand) string {
	return fmt.Sprintf("%d.%d.%d.%d", pick(r, []int{37, 77, 82, 90, 94, 100, 178}), r.n(0, 255), r.n(0, 255), r.n(1, 254))
}

func centre(r *Rand) string {
	return fmt.Sprintf("%s.%d.%d", pick(r, []string{"3.120", "18.195", "34.89", "35.198", "51.15", "51.83", "65.21", "95.216", "104.248", "138.68", "159.89", "167.99", "45.76", "139.59", "20.54", "23.88", "5.161"}), r.n(0, 255), r.n(1, 254))
}

func inner(r *Rand) string { return fmt.Sprintf("10.%d.%d.%d", r.n(20, 24), r.n(1, 40), r.n(10, 250)) }
