package client

import (
	"hash/maphash"
	"sync/atomic"

	"antirobot/request"
)

// Family is what kind of client a User-Agent claims to be.
type Family uint8

// The families. Those from FamilyChrome on are browsers.
const (
	FamilyNone     Family = iota // no User-Agent
	FamilyOther                  // something that belongs to none of the other families
	FamilyLibrary                // an HTTP library or a command line tool
	FamilyApp                    // a library with which mobile apps are built
	FamilyRobot                  // declares itself a robot
	FamilyCrawler                // a crawler of a search engine that can prove its identity
	FamilyHeadless               // a browser that declares that it has no screen
	FamilyChrome                 // and browsers built on it that use no other name
	FamilyEdge
	FamilyOpera
	FamilyYandex
	FamilySamsung
	FamilyWebView // Chrome embedded in an Android app
	FamilyFirefox
	FamilySafari
	FamilyWebKit // any browser on iOS but Safari: they all use one engine
	FamilyOld    // Internet Explorer, and Edge before it was built on Chromium
)

var familyNames = [...]string{
	"none", "other", "library", "app", "robot", "crawler", "headless", "chrome", "edge", "opera", "yandex", "samsung", "webview",
	"firefox", "safari", "webkit", "old",
}

func (f Family) String() string {
	if int(f) < len(familyNames) {
		return familyNames[f]
	}
	return "unknown"
}

// Browser reports whether people use this family to view pages.
func (f Family) Browser() bool { return f >= FamilyChrome }

// Program reports whether a client says itself that it is no browser. A browser without a screen is a browser that is driven.
func (c Claim) Program() bool { return c.Family < FamilyHeadless }

// Chromium reports whether the family has Chromium's engine, and therefore its header fields.
func (f Family) Chromium() bool { return f >= FamilyChrome && f <= FamilyWebView }

// TellsHands reports whether a browser says, with Sec-Fetch-User, that somebody has clicked, pressed a key or typed an address to open a page, and has
// nothing to say of one that a script opens. Safari never says so.
func (c Claim) TellsHands() bool {
	return c.Family.Chromium() && c.Major >= chromiumFetch || c.Family == FamilyFirefox && c.Major >= firefoxFetch
}

// System is the operating system that a User-Agent names.
type System uint8

// The systems.
const (
	SystemOther System = iota
	SystemWindows
	SystemAndroid
	SystemIOS
	SystemMac
	SystemChromeOS
	SystemLinux
)

// Claim is what a client says it is.
type Claim struct {
	Family Family
	System System
	Mobile bool
	Major  uint16 // version of the browser, 0 if it names none; for those built on Chromium, Chromium's
}

// Table remembers what User-Agents claim, by their hash: a few thousand of them make nearly all requests. An entry is a
// single word, so there is no lock. The hash has a secret of its own: with a known one somebody could send a User-Agent that collides
// with a popular browser's, and have all who use that taken for something else. It also has the key by which facts hash what requests ask
// for. A nil table parses each time, and has the zero key. Safe for concurrent use.
type Table struct {
	seed   maphash.Seed
	key    request.HashKey
	places [4096]atomic.Uint64
}

// NewTable returns an empty table.
func NewTable(key request.HashKey) *Table { return &Table{seed: maphash.MakeSeed(), key: key} }

// Key returns the key by which paths and targets are hashed.
func (t *Table) Key() *request.HashKey {
	if t == nil {
		return new(request.HashKey)
	}
	return &t.key
}

// claim returns the claim of a User-Agent.
func (t *Table) claim(ua []byte) Claim {
	if t == nil {
		return ParseClaim(ua)
	}
	const tag = 1<<64 - 1<<24 // a claim takes 24 bits
	hash := maphash.Bytes(t.seed, ua)
	place := &t.places[hash%uint64(len(t.places))]
	if w := place.Load(); w&tag == hash&tag && w != 0 {
		return Claim{Family: Family(w & 31), System: System(w >> 5 & 7), Mobile: w>>8&1 == 1, Major: uint16(w >> 9 & 0x7fff)}
	}
	c := ParseClaim(ua)
	w := uint64(c.Family) | uint64(c.System)<<5 | uint64(c.Major&0x7fff)<<9
	if c.Mobile {
		w |= 1 << 8
	}
	place.Store(hash&tag | w)
	return c
}

// longestAgent is how much of a User-Agent is read.
const longestAgent = 512

// ParseClaim reads a User-Agent.
func ParseClaim(ua []byte) (c Claim) {
	if len(ua) == 0 {
		return Claim{}
	}
	ua = ua[:min(len(ua), longestAgent)]
	var r agentReader
	from, to := device(ua)
	for i := range ua {
		start := i == 0 || !isWord(ua[i-1])
		if start {
			r.word(ua[i:])
		}
		if !r.robot && (i < from || i >= to) {
			r.robot = namesRobot(ua, i, start)
		}
	}
	return r.claim(ua)
}

func isWord(b byte) bool {
	return b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' || b == '_' || b == '-'
}

// agentReader collects the significant words of a User-Agent.
type agentReader struct {
	claim0                          Claim
	chrome, version                 uint16
	robot, crawler, headless, apple bool
	webview, firefox, safari, app   bool
}

// word examines the word that b begins with.
func (r *agentReader) word(b []byte) {
	c := &r.claim0
	mark := func(s string) bool { return len(b) >= len(s) && string(b[:len(s)]) == s }
	named := func(s string, f Family) bool {
		if !mark(s) {
			return false
		}
		if c.Family < FamilyChrome {
			c.Family = f
		}
		return true
	}
	switch b[0] {
	case 'C':
		switch {
		case mark("Chrome/"):
			r.chrome = major(b[len("Chrome/"):])
		case mark("Chromium/"):
			r.chrome = max(r.chrome, major(b[len("Chromium/"):]))
		case named("CriOS/", FamilyWebKit):
		case mark("CrOS "):
			c.System = SystemChromeOS
		case mark("CFNetwork/"):
			r.app = true
		}
	case 'E':
		switch {
		case named("Edg/", FamilyEdge), named("EdgA/", FamilyEdge), named("EdgiOS/", FamilyWebKit):
		case named("Edge/", FamilyOld):
		}
	case 'O':
		switch {
		case named("OPR/", FamilyOpera):
		case named("OPiOS/", FamilyWebKit):
		}
	case 'Y':
		named("YaBrowser/", FamilyYandex)
	case 'F':
		switch {
		case mark("Firefox/"):
			r.firefox = true
			r.version = major(b[len("Firefox/"):])
		case named("FxiOS/", FamilyWebKit):
		}
	case 'S':
		switch {
		case mark("Safari/"):
			r.safari = true
		case named("SamsungBrowser/", FamilySamsung):
		}
	case 'H', 'V', 'P', 'M', 'T':
		r.engine(b, mark, named)
	default:
		r.system(b, mark)
	}
	if len(b) > 6 && !r.crawler && (b[0]|0x20 >= 'a') {
		r.crawler = namesCrawler(b)
	}
}

// engine examines the words that identify engines, old browsers and devices.
func (r *agentReader) engine(b []byte, mark func(string) bool, named func(string, Family) bool) {
	c := &r.claim0
	switch b[0] {
	case 'H':
		if mark("HeadlessChrome/") {
			r.headless = true
			r.chrome = major(b[len("HeadlessChrome/"):])
		}
	case 'V':
		if mark("Version/") && r.version == 0 {
			r.version = major(b[len("Version/"):])
		}
	case 'P':
		r.headless = r.headless || mark("PhantomJS")
	case 'M':
		switch {
		case mark("Mobile"):
			c.Mobile = true
		case mark("Macintosh"):
			c.System = SystemMac
		case mark("MSIE "):
			named("MSIE ", FamilyOld)
			r.version = major(b[len("MSIE "):])
		}
	case 'T':
		if named("Trident/", FamilyOld) && r.version == 0 {
			r.version = 11
		}
	}
}

func (r *agentReader) system(b []byte, mark func(string) bool) {
	c := &r.claim0
	switch b[0] {
	case 'W':
		if mark("Windows") {
			c.System = SystemWindows
		}
	case 'A':
		if mark("Android") {
			c.System = SystemAndroid
		}
	case 'i':
		if mark("iPhone") || mark("iPad") || mark("iPod") {
			c.System, c.Mobile, r.apple = SystemIOS, true, true
		}
	case 'L', 'X':
		if c.System == SystemOther && (mark("Linux") || mark("X11")) {
			c.System = SystemLinux
		}
	case 'w':
		r.webview = r.webview || mark("wv)")
	}
}

// claim assembles what was read.
func (r *agentReader) claim(ua []byte) Claim {
	c := r.claim0
	c.Major = r.version
	switch {
	case r.crawler:
		c.Family = FamilyCrawler
	case r.robot:
		c.Family = FamilyRobot
	case r.headless:
		c.Family, c.Major = FamilyHeadless, r.chrome
	case c.Family.Chromium():
		c.Major = r.chrome
	case c.Family.Browser():
	case r.chrome != 0:
		c.Family, c.Major = FamilyChrome, r.chrome
		if r.webview {
			c.Family = FamilyWebView
		}
	case r.firefox:
		c.Family = FamilyFirefox
	case r.safari && r.apple && r.version == 0:
		c.Family = FamilyWebKit
	case r.safari:
		c.Family = FamilySafari
	case r.apple:
		c.Family = FamilyWebKit // a page inside an app
	case r.app:
		c.Family = FamilyApp
	default:
		c.Family = product(ua)
	}
	return c
}

// major reads a number, up to four digits.
func major(b []byte) (n uint16) {
	for i := 0; i < len(b) && i < 4 && b[i] >= '0' && b[i] <= '9'; i++ {
		n = n*10 + uint16(b[i]-'0')
	}
	return n
}

// crawlers are the first letters of those crawlers that publish how they can be verified.
var crawlers = [...]string{
	"googlebot", "adsbot-google", "mediapartners-google", "google-inspectiontool", "googleother", "bingbot", "yandexbot",
	"yandeximages", "yandexmobilebot", "duckduckbot", "applebot", "baiduspider", "slurp", "seznambot", "petalbot",
}

func namesCrawler(b []byte) bool {
	switch b[0] | 0x20 {
	case 'g', 'a', 'm', 'b', 'y', 'd', 's', 'p':
	default:
		return false
	}
	for _, name := range crawlers {
		if b[0]|0x20 == name[0] && request.HasPrefixFold(b, name) {
			return true
		}
	}
	return false
}

var libraries = [...]string{
	"curl", "wget", "libcurl", "python", "aiohttp", "httpx", "go-http-client", "java", "apache-httpclient", "libwww-perl", "lwp",
	"php", "guzzle", "axios", "node", "undici", "got", "ruby", "faraday", "postman", "insomnia", "httpie", "powershell", "colly",
	"aria2", "mechanize", "restsharp", "winhttp", "reqwest", "http.rb", "http_request", "urllib", "pycurl", "perl", "lua", "wininet",
	"typhoeus", "httpclient", "nutch", "heritrix", "zgrab", "masscan", "nmap", "nikto", "sqlmap", "k6", "ab", "wrk", "hey", "siege",
}

var apps = [...]string{"okhttp", "dart", "alamofire", "dalvik", "cronet"}

// product says by its first product what a client is that names no browser.
func product(ua []byte) Family {
	n := 0
	for n < len(ua) && ua[n] != '/' && ua[n] != ' ' {
		n++
	}
	for _, s := range apps {
		if request.HasPrefixFold(ua[:n], s) {
			return FamilyApp
		}
	}
	for _, s := range libraries {
		if request.HasPrefixFold(ua[:n], s) && (len(s) > 3 || len(s) == n) {
			return FamilyLibrary
		}
	}
	return FamilyOther
}
