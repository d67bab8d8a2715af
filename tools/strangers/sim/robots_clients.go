package sim

import "strings"

// Plain HTTP clients, which load no parts of pages: those that tell who they are.

// asTool makes the agent a plain HTTP client.
func (a *Agent) asTool(ua, accept string) {
	a.C = tool(ua, accept)
	a.Bare, a.NoCache, a.icon = true, true, true
	a.Addr = centre(a.r)
	a.RTT, a.BW = a.r.u(0.005, 0.06), 8e6
	if strings.HasPrefix(ua, "Mozilla/5.0 (W") || strings.HasPrefix(ua, "Mozilla/5.0 (M") {
		a.C.Proto = pick(a.r, []string{"HTTP/1.1", "HTTP/1.1", "HTTP/2.0"})
	}
}

const anything = "*/*"

// grab fetches an address and follows redirects.
func (a *Agent) grab(uri, ref string) *Resp {
	for range 5 {
		p, end := a.ask(a.now, "GET", uri, "tool", ref, "")
		a.now = end
		if p.Location == "" || !strings.HasPrefix(p.Location, "/") {
			return p
		}
		uri = p.Location
	}
	return &Resp{Status: 310}
}

// pause gives a function that draws pauses of a kind.
func (a *Agent) pause(kind string, mean float64) func() {
	return func() {
		s := mean
		switch kind {
		case "uniform":
			s = a.r.u(mean*0.5, mean*1.5)
		case "gauss":
			s = a.r.g(mean, mean*0.3, 0.1)
		case "logn":
			s = a.r.logN(mean*0.75, 0.75)
		case "exp":
			s = a.r.exp(mean)
		}
		a.now += int64(s * 1000)
	}
}

// crawl follows links from the start page, breadth or depth first.
func (a *Agent) crawl(breadth bool, limit int, wait func(), ref bool, head string) {
	type job struct{ uri, from string }
	queue := []job{{a.site.Home, ""}}
	seen := map[string]bool{a.site.Home: true}
	for n := 0; len(queue) > 0 && n < limit && a.now < a.end(); n++ {
		var j job
		if breadth {
			j, queue = queue[0], queue[1:]
		} else {
			j, queue = queue[len(queue)-1], queue[:len(queue)-1]
		}
		from := ""
		if ref && j.from != "" {
			from = a.url(j.from)
		}
		if head != "" && n > 0 && a.r.p(0.8) {
			_, end := a.ask(a.now, "HEAD", j.uri, "doc", from, "")
			a.now = end
			if a.r.p(0.7) {
				wait()
				continue
			}
		}
		p := a.grab(j.uri, from)
		for _, l := range p.Links {
			if hf("mistake", a.key, l.URL) < 0.012 { // entities left as they are, joined wrongly
				l.URL = strings.ReplaceAll(l.URL, "&", "&amp;")
				if !strings.Contains(l.URL, "&") {
					l.URL = strings.TrimSuffix(j.uri, "/") + l.URL
				}
			}
			if !seen[l.URL] && strings.HasPrefix(l.URL, "/") && len(queue) < 5000 {
				seen[l.URL] = true
				queue = append(queue, job{l.URL, j.uri})
			}
		}
		wait()
	}
}

func (a *Agent) startAt() {
	a.now = a.at(a.r.n(0, a.site.Days-1), a.r.u(0, 23))
}

// crawler says who it is, asks for robots.txt, and goes in breadth or depth.
func crawler(a *Agent) {
	bot := pick(a.r, []string{
		"Mozilla/5.0 (compatible; MegaIndex.ru/2.0; +http://megaindex.com/crawler)",
		"CCBot/2.0 (https://commoncrawl.org/faq/)",
		"Mozilla/5.0 (compatible; Seekport Crawler; http://seekport.com/)",
		"Mozilla/5.0 (compatible; MojeekBot/0.11; +https://www.mojeek.com/bot.html)",
	})
	a.asTool(bot, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	a.startAt()
	a.grab("/robots.txt", "")
	a.crawl(a.Index%2 == 0, a.r.n(60, 250), a.pause(pick(a.r, []string{"fixed", "uniform", "exp"}), a.r.u(2, 15)), false, "")
}

// aiCrawler fetches pages for a model and says so.
func aiCrawler(a *Agent) {
	ua := pick(a.r, []string{
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
		"Mozilla/5.0 (compatible; Bytespider; spider-feedback@bytedance.com)",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_10_1) AppleWebKit/600.2.5 (KHTML, like Gecko) Version/8.0.2 Safari/600.2.5 (Amazonbot/0.1; +https://developer.amazon.com/support/amazonbot)",
		"meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)",
	})
	a.asTool(ua, anything)
	a.startAt()
	for range a.r.n(1, 4) {
		a.grab("/robots.txt", "")
		n := a.site.count(a.now)
		wait := a.pause("exp", a.r.u(0.5, 8))
		for range a.r.n(20, 90) {
			a.grab(a.site.Item(a.r.n(0, n-1)), "")
			wait()
		}
		a.now += int64(a.r.u(1, 9) * float64(hour))
	}
}

// seoTool says who it is.
func seoTool(a *Agent) {
	ua := pick(a.r, []string{
		"Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
		"Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)",
		"Mozilla/5.0 (compatible; DotBot/1.2; +https://opensiteexplorer.org/dotbot; help@moz.com)",
		"Mozilla/5.0 (compatible; DataForSeoBot/1.0; +https://dataforseo.com/dataforseo-bot)",
		"Screaming Frog SEO Spider/21.4",
	})
	a.asTool(ua, "text/html,application/xhtml+xml,application/xml;q=0.9,image/*;q=0.8,*/*;q=0.7")
	a.startAt()
	a.grab("/robots.txt", "")
	a.crawl(true, a.r.n(60, 260), a.pause("exp", a.r.u(3, 40)), false, "")
}

// searchBot indexes with documents and sometimes renders.
func searchBot(a *Agent) {
	a.asTool("Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.7339.80 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "text/html,application/xhtml+xml,application/signed-exchange;v=b3,application/xml;q=0.9,*/*;q=0.8")
	if a.Index%2 == 1 {
		a.C.UA = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36"
	}
	a.Addr = "66.249.66." + itoa(a.Index+3)
	a.now = a.at(0, a.r.u(0, 3))
	a.grab("/robots.txt", "")
	for a.now < a.end() {
		uri := a.site.Item(a.popular())
		if a.r.p(0.2) {
			uri = a.site.List(a.r.zipf(a.site.Lists, 0.8), 1)
		}
		p := a.grab(uri, "")
		if a.r.p(0.2) {
			for _, x := range p.Parts {
				if x.Kind == "style" || x.Kind == "script" || x.Kind == "json" {
					_, end := a.ask(a.now+int64(a.r.u(2000, 60000)), "GET", x.URL, "doc", a.url(uri), "")
					_ = end
				}
			}
		}
		a.now += int64(a.r.exp(700) * 1000)
	}
}

// linkChecker sends HEAD and a GET where needed.
func linkChecker(a *Agent) {
	a.asTool(pick(a.r, []string{"LinkChecker/10.4 (+https://linkchecker.github.io/linkchecker/)", "W3C-checklink/5.0.0 libwww-perl/6.72", "Xenu Link Sleuth/1.3.8"}), anything)
	a.startAt()
	a.crawl(true, a.r.n(80, 260), a.pause("exp", a.r.u(0.2, 1.5)), true, "HEAD")
}

// uptime asks for one page at a fixed step.
func uptime(a *Agent) {
	a.asTool(pick(a.r, []string{"Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", "Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)", "Uptime-Kuma/1.23.16", "check_http/v2.3.3 (nagios-plugins 2.3.3)"}), anything)
	every := pick(a.r, []float64{300, 600, 900, 1800})
	method := pick(a.r, []string{"GET", "HEAD", "HEAD"})
	a.now = a.at(0, a.r.u(0, 0.3))
	for a.now < a.end() {
		t := a.now
		a.ask(t, method, a.site.Home, "doc", "", "")
		a.now = t + int64(every*1000) + int64(a.r.u(-200, 400))
	}
}

// feedFetcher asks for the feed.
func feedFetcher(a *Agent) {
	a.asTool(pick(a.r, []string{"Feedly/1.0 (+https://feedly.com/poller.html; 12 subscribers; )", "Tiny Tiny RSS/24.10 (https://tt-rss.org/)", "NewsBlur Feed Fetcher - 5 subscribers", "FreshRSS/1.25.0 (Linux; https://freshrss.org)"}), "application/atom+xml, application/rss+xml, */*")
	every := pick(a.r, []float64{900, 1800, 3600})
	feed := a.site.Feed
	if feed == "" {
		feed = "/feed"
	}
	last := ""
	a.now = a.at(0, a.r.u(0, 1))
	for a.now < a.end() {
		t := a.now
		p := a.site.Get(&Req{Method: "GET", URL: feed, At: t, S: a.S, Kind: "tool"})
		tag := p.Tag + "/" + itoa(a.site.count(t)+int(t/(3*hour)))
		if send := *p; tag == last {
			send.Status = 304
			a.emit(t+90, "GET", feed, "doc", "", "", &send)
		} else {
			a.ask(t, "GET", feed, "doc", "", "")
		}
		last = tag
		a.now = t + int64(every*1000) + int64(a.r.u(0, 20000))
	}
}

// preview fetches a shared page once for its card.
func preview(a *Agent) {
	a.asTool(pick(a.r, []string{"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "Twitterbot/1.0", "TelegramBot (like TwitterBot)", "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "WhatsApp/2.24.20.89 A", "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)"}), anything)
	a.visits(a.r.u(1, 5), publicHours, func() {
		p := a.grab(a.site.Item(a.popular()), "")
		for _, x := range p.Parts {
			if x.Kind == "image" {
				a.ask(a.now+int64(a.r.u(100, 900)), "GET", x.URL, "doc", "", "")
				break
			}
		}
	})
}

// sitemapper reads the sitemap and fetches by it.
func sitemapper(a *Agent) {
	a.asTool(pick(a.r, []string{"Mozilla/5.0 (compatible; SiteAuditBot/0.97; +http://www.semrush.com/bot.html)", "python-requests/2.31.0", "colly - https://github.com/gocolly/colly"}), anything)
	a.startAt()
	a.grab("/robots.txt", "")
	a.grab("/sitemap.xml", "")
	n := a.site.count(a.now)
	wait := a.pause(pick(a.r, []string{"fixed", "gauss", "exp"}), a.r.u(0.5, 5))
	for i, from := 0, a.r.n(0, n-1); i < a.r.n(100, 260); i++ {
		a.grab(a.site.Item((from+i)%n), "")
		wait()
	}
}
