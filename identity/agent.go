package identity

import (
	"bytes"
)

// The marks of browsers; those that claim to be others come first.
var browsers = []struct{ mark, name string }{
	{"Edg/", "edge"},
	{"EdgA/", "edge"},
	{"EdgiOS/", "edge"},
	{"Edge/", "edge"},
	{"OPR/", "opera"},
	{"Opera", "opera"},
	{"OPiOS/", "opera"},
	{"YaBrowser/", "yandex"},
	{"SamsungBrowser/", "samsung"},
	{"UCBrowser/", "uc"},
	{"Vivaldi/", "vivaldi"},
	{"Firefox/", "firefox"},
	{"FxiOS/", "firefox"},
	{"HeadlessChrome/", "headless"},
	{"Chrome/", "chrome"},
	{"CriOS/", "chrome"},
	{"Chromium/", "chrome"},
	{"Trident/", "ie"},
	{"MSIE ", "ie"},
	{"Safari/", "safari"},
}

// The marks of systems; those that claim to be others come first.
var systems = []struct{ mark, name string }{
	{"Windows", "windows"},
	{"Android", "android"},
	{"iPhone", "ios"},
	{"iPad", "ios"},
	{"iPod", "ios"},
	{"Macintosh", "mac"},
	{"CrOS", "chromeos"},
	{"Linux", "linux"},
	{"X11", "linux"},
}

// AgentFamily returns a hash of the browser and the system that a User-Agent claims, without versions, so that an
// update changes nothing. A client that is not a known browser is identified by its first product name. The hash is
// the same in every process; 0 means that there was no User-Agent.
func AgentFamily(ua []byte) uint64 {
	if len(ua) == 0 {
		return 0
	}
	if len(ua) > 512 {
		ua = ua[:512]
	}
	h := uint64(0)
	for i := range browsers {
		if bytes.Contains(ua, []byte(browsers[i].mark)) {
			h = fnv(fnvBasis, browsers[i].name)
			break
		}
	}
	if h == 0 {
		h = fnv(fnvBasis, product(ua))
	}
	system := "other"
	for i := range systems {
		if bytes.Contains(ua, []byte(systems[i].mark)) {
			system = systems[i].name
			break
		}
	}
	return max(1, fnv(fnv(h, "/"), system))
}

func product(ua []byte) []byte {
	if i := bytes.IndexAny(ua, "/ "); i >= 0 {
		return ua[:i]
	}
	return ua
}

const fnvBasis = 0xcbf29ce484222325

func fnv[T string | []byte](h uint64, b T) uint64 {
	for i := range len(b) {
		h = (h ^ uint64(b[i])) * 0x100000001b3
	}
	return h
}
