package texts

import "strings"

// knownEnd reports a usual end of a host without a scheme, and not one of files or abbreviations (md, py, rs, sh).
func knownEnd(host string) bool {
	switch strings.ToLower(host[strings.LastIndexByte(host, '.')+1:]) {
	case "com", "net", "org", "info", "biz", "io", "me", "co", "app", "dev", "xyz", "top", "shop", "site", "online",
		"club", "store", "vip",
		"live", "pro", "link", "click", "world", "space", "fun", "win", "bet", "casino", "icu", "buzz", "cyou", "cfd",
		"sbs", "tech", "website",
		"ru", "su", "ua", "by", "kz", "uz", "de", "fr", "uk", "eu", "pl", "cz", "it", "es", "nl", "ch", "at", "se",
		"fi", "no", "us", "ca", "br",
		"cn", "jp", "kr", "in", "tr", "ir", "cc", "tk", "ly", "gl", "gg", "to", "ws", "ml", "ga", "cf", "рф", "бел",
		"укр", "xn--p1ai":
		return true
	}
	return false
}

func shortens(host string) bool {
	switch strings.TrimPrefix(host, "www.") {
	case "bit.ly", "t.co", "goo.gl", "tinyurl.com", "is.gd", "v.gd", "ow.ly", "buff.ly", "cutt.ly", "rb.gy",
		"rebrand.ly", "bl.ink", "t.ly",
		"tiny.cc", "shorturl.at", "shorturl.com", "s.id", "clck.ru", "vk.cc", "u.to", "goo.su", "bit.do", "bitly.com",
		"j.mp", "adf.ly", "ouo.io",
		"lnkd.in", "fb.me", "amzn.to", "wp.me", "trib.al", "dlvr.it", "soo.gd", "x.co", "q.gs", "bc.vc", "po.st",
		"mcaf.ee", "su.pr", "snip.ly",
		"shorte.st", "t2m.io", "tny.im", "qps.ru", "tr.im", "cli.gs", "short.io", "surl.li", "kutt.it", "urlz.fr",
		"n9.cl", "acortar.link",
		"dwz.cn", "t.cn", "url.cn", "suo.im", "shrtco.de", "ift.tt", "zpr.io", "linktr.ee", "lnk.to", "db.tt", "git.io",
		"a.co", "spoti.fi":
		return true
	}
	return false
}
