package sim

import (
	"strconv"
	"strings"
)

// Plain HTTP clients that take what a site has, and those that attack it.

func itoa(n int) string { return strconv.Itoa(n) }

// listScraper walks lists page by page and takes every item.
func listScraper(a *Agent) {
	a.asTool(pick(a.r, []string{"python-requests/2.32.3", "Scrapy/2.12.0 (+https://scrapy.org)", "Go-http-client/1.1", "okhttp/4.12.0", "axios/1.7.9", "node-fetch/1.0 (+https://github.com/bitinn/node-fetch)"}), anything)
	kind := pick(a.r, []string{"fixed", "fixed", "uniform", "gauss"})
	wait := a.pause(kind, a.r.u(0.4, 6))
	a.startAt()
	k := a.r.n(0, a.site.Lists-1)
	for page := 1; page <= a.r.n(4, 14) && a.now < a.end(); page++ {
		p := a.grab(a.site.List(k, page), "")
		wait()
		for _, l := range p.Links {
			if l.Kind == "item" {
				if a.r.p(0.008) {
					l.URL = l.URL[:strings.LastIndex(strings.TrimSuffix(l.URL, "/"), "/")+1] + pick(a.r, []string{"undefined", "None", "null"})
				}
				a.grab(l.URL, "")
				wait()
			}
		}
	}
}

// disguised is an HTTP client with the header lines of a browser.
func disguised(a *Agent) {
	a.asTool(desktop(a.r).UA, "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8")
	kind := pick(a.r, []string{"gauss", "uniform", "logn"})
	wait := a.pause(kind, a.r.u(2, 14))
	fixed := pick(a.r, []string{"https://www.google.com/", "", a.url(a.site.Home)})
	a.visits(a.r.u(0.6, 2), flatHours, func() {
		k := a.r.n(0, a.site.Lists-1)
		for page := 1; page <= a.r.n(1, 4); page++ {
			p := a.grab(a.site.List(k, page), fixed)
			wait()
			for _, l := range p.Links {
				if l.Kind == "item" && a.r.p(0.6) {
					a.grab(l.URL, pick(a.r, []string{fixed, a.url(a.site.List(k, page))}))
					wait()
				}
			}
		}
	})
}

// priceMonitor fetches the same items again and again.
func priceMonitor(a *Agent) {
	a.asTool(pick(a.r, []string{desktop(a.r).UA, "PriceSpider/1.0", "Mozilla/5.0 (compatible; PriceBot/3.1)"}), anything)
	n := a.site.count(a.site.Start)
	var watch []int
	for range a.r.n(6, 25) {
		watch = append(watch, a.r.n(0, n-1))
	}
	every := a.r.u(1, 5)
	wait := a.pause("gauss", a.r.u(1, 8))
	a.now = a.at(0, a.r.u(0, every))
	for a.now < a.end() {
		from := a.now
		for _, i := range watch {
			a.grab(a.site.Item(i), "")
			wait()
		}
		a.now = from + int64(every*float64(hour)) + int64(a.r.u(0, 30000))
	}
}

// apiScraper asks the data interface only.
func apiScraper(a *Agent) {
	a.asTool(pick(a.r, []string{"python-httpx/0.28.1", "okhttp/4.12.0", "Dart/3.5 (dart:io)", android("K", 138).UA}), "application/json")
	api := a.site.API
	if api == nil {
		api = a.site.Item
	}
	wait := a.pause(pick(a.r, []string{"fixed", "uniform", "exp"}), a.r.u(0.3, 5))
	a.startAt()
	from := a.r.n(0, a.site.count(a.now)-1)
	for i := range a.r.n(120, 400) {
		_, end := a.ask(a.now, "GET", api((from+i)%a.site.count(a.now)), "json", "", "")
		a.now = end
		wait()
	}
}

// mirror copies pages and parts as wget does.
func mirror(a *Agent) {
	a.asTool(pick(a.r, []string{"Wget/1.21.4", "Mozilla/4.5 (compatible; HTTrack 3.0x; Windows 98)"}), anything)
	a.startAt()
	seen := map[string]bool{}
	wait := a.pause(pick(a.r, []string{"fixed", "uniform"}), a.r.u(0.2, 2))
	queue := []Link{{URL: a.site.Home}}
	for n := 0; len(queue) > 0 && n < a.r.n(60, 140); n++ {
		l := queue[0]
		queue = queue[1:]
		p := a.grab(l.URL, "")
		for _, x := range p.Parts {
			if !seen[x.URL] && x.Method == "" && !x.Script && x.Kind != "beacon" {
				seen[x.URL] = true
				_, a.now = a.ask(a.now, "GET", x.URL, "doc", a.url(l.URL), "")
			}
		}
		for _, m := range p.Links {
			if !seen[m.URL] {
				seen[m.URL] = true
				queue = append(queue, m)
			}
		}
		wait()
	}
}

// imageTaker fetches pictures, broken downloads by ranges.
func imageTaker(a *Agent) {
	a.asTool(pick(a.r, []string{"aria2/1.37.0", "python-urllib3/2.2.3", "img2dataset", "curl/8.5.0"}), anything)
	a.startAt()
	wait := a.pause("uniform", a.r.u(0.2, 2))
	for range a.r.n(20, 70) {
		p := a.grab(a.site.Item(a.popular()), "")
		for _, x := range p.Parts {
			if x.Kind != "image" {
				continue
			}
			q, end := a.ask(a.now, "GET", x.URL, "doc", "", "")
			a.now = end
			if a.r.p(0.04) {
				part := *q
				part.Status, part.Size = 206, q.Size/2
				a.emit(a.now+900, "GET", x.URL, "doc", "", "", &part)
			}
		}
		wait()
	}
}

// formSpam posts rubbish into the forms that it finds.
func formSpam(a *Agent) {
	a.asTool(chrome(win, a.r.n(80, 120)).UA, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	a.visits(a.r.u(0.6, 2), flatHours, func() {
		for range a.r.n(3, 12) {
			i := a.site.Item(a.popular())
			p := a.grab(i, a.url(i))
			for _, l := range p.Links {
				if strings.HasPrefix(l.Kind, "form") {
					a.now += int64(a.r.u(300, 2500))
					_, end := a.ask(a.now, "POST", l.URL, "doc", a.url(i), "")
					a.now = end
				}
			}
			for _, u := range []string{"/contact", "/wp-comments-post.php", "/register"} {
				if a.r.p(0.35) {
					_, end := a.ask(a.now, "POST", u, "doc", a.url(i), "")
					a.now = end
				}
			}
			a.now += int64(a.r.u(1, 20) * 1000)
		}
	})
}

// accountChecker tries passwords at the log-in.
func accountChecker(a *Agent) {
	a.asTool(desktop(a.r).UA, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	login := a.site.Login
	if login == "" {
		login = "/login"
	}
	wait := a.pause(pick(a.r, []string{"uniform", "gauss", "exp"}), a.r.u(1, 12))
	a.visits(1, flatHours, func() {
		for range a.r.n(30, 110) {
			if a.r.p(0.5) {
				a.grab(login, "")
			}
			_, end := a.ask(a.now+int64(a.r.u(80, 400)), "POST", login, "doc", a.url(login), "")
			a.now = end
			wait()
		}
	})
}

var holes = strings.Fields("/.env /.git/config /wp-login.php /wp-admin/setup-config.php /phpmyadmin/ /admin/ /administrator/ /.aws/credentials /config.php.bak /backup.zip /db.sql /server-status /actuator/health /api/.env /vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php /cgi-bin/luci /owa/ /xmlrpc.php /.DS_Store /debug/default/view /solr/admin/info/system /boaform/admin/formLogin /HNAP1 /_ignition/execute-solution /telescope/requests /.vscode/sftp.json /manager/html /console/ /login.action /api/v1/pods")

// vulnScanner looks for holes.
func vulnScanner(a *Agent) {
	a.asTool(pick(a.r, []string{"Mozilla/5.0 (compatible; Nmap Scripting Engine; https://nmap.org/book/nse.html)", "Mozilla/5.0 zgrab/0.x", chrome(win, 78).UA, "curl/7.88.1", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Nuclei - Open-source project"}), anything)
	a.visits(a.r.u(0.5, 1.5), flatHours, func() {
		for range a.r.n(15, 90) {
			u := pick(a.r, holes)
			if a.r.p(0.3) {
				u = a.site.List(a.r.n(0, a.site.Lists-1), 1)
				u += map[bool]string{true: "&", false: "?"}[strings.Contains(u, "?")] + pick(a.r, []string{"id=1%27%20OR%201=1--", "q=%3Cscript%3Ealert(1)%3C/script%3E", "file=../../../../etc/passwd"})
			}
			m := "GET"
			if a.r.p(0.1) {
				m = "POST"
			}
			_, end := a.ask(a.now, m, u, "doc", "", "")
			a.now = end + int64(a.r.exp(600))
		}
	})
}
