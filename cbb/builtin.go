package cbb

import (
	"fmt"
	"slices"
	"strings"
)

// builtinCrawlers returns the search engines that publish how to verify them, and fetchers of link previews that can be verified. The facts are
// from the publishers' own pages; see testdata/SOURCE.md. Other robots are not included: which to welcome is the operator's choice.
func builtinCrawlers() []CrawlerConfig {
	const google = "https://developers.google.com/static/search/apis/ipranges/"
	return []CrawlerConfig{
		{
			Name: "googlebot",
			UserAgent: []string{
				"Googlebot", "GoogleOther", "Google-InspectionTool", "Storebot-Google", "Google-CloudVertexBot",
			},
			RangeURLs:  []string{google + "googlebot.json"},
			ReverseDNS: []string{"googlebot.com"},
		},
		{
			Name:       "google-special",
			UserAgent:  []string{"AdsBot-Google", "Mediapartners-Google", "APIs-Google", "Google-Safety"},
			RangeURLs:  []string{google + "special-crawlers.json"},
			ReverseDNS: []string{"google.com"},
		},
		{
			Name:       "bingbot",
			UserAgent:  []string{"bingbot", "adidxbot", "BingPreview", "MicrosoftPreview"},
			RangeURLs:  []string{"https://www.bing.com/toolbox/bingbot.json"},
			ReverseDNS: []string{"search.msn.com"},
		},
		{
			Name:       "yandex",
			UserAgent:  []string{"yandex.com/bots"},
			ReverseDNS: []string{"yandex.ru", "yandex.net", "yandex.com"},
		},
		{
			Name:      "duckduckbot",
			UserAgent: []string{"DuckDuckBot", "DuckAssistBot"},
			RangeURLs: []string{"https://duckduckgo.com/duckduckbot.json", "https://duckduckgo.com/duckassistbot.json"},
		},
		{
			Name:       "applebot",
			UserAgent:  []string{"Applebot"},
			RangeURLs:  []string{"https://search.developer.apple.com/applebot.json"},
			ReverseDNS: []string{"applebot.apple.com"},
		},
		{Name: "baiduspider", UserAgent: []string{"Baiduspider"}, ReverseDNS: []string{"baidu.com", "baidu.jp"}},
		{Name: "yahoo-slurp", UserAgent: []string{"Yahoo! Slurp"}, ReverseDNS: []string{"crawl.yahoo.net"}},
		{Name: "seznambot", UserAgent: []string{"SeznamBot"}, ReverseDNS: []string{"seznam.cz"}},
		{Name: "petalbot", UserAgent: []string{"PetalBot"}, ReverseDNS: []string{"petalsearch.com"}},

		// What fetches a link to preview it, before people follow it. Telephones that preview links by themselves send parts of these names
		// (iMessage), as does a messenger that is none of Facebook's (KakaoTalk), so the names are matched as a whole.
		{
			Name: "facebook-preview", UserAgentRegex: []string{`^facebookexternalhit/1\.[01](?: \(\+http|$)`},
			ReverseDNS: []string{"fbsv.net", "facebook.com"},
		},
		{Name: "linkedin-preview", UserAgentRegex: []string{`^LinkedInBot/`}, ReverseDNS: []string{"fwd.linkedin.com"}},
		{Name: "twitter-preview", UserAgentRegex: []string{`^Twitterbot/`}, ReverseDNS: []string{"twttr.com", "twitter.com"}},
		{
			Name: "telegram-preview", UserAgentRegex: []string{`^TelegramBot \(`},
			RangeURLs: []string{"https://core.telegram.org/resources/cidr.txt"},
			Ranges: []string{
				"91.105.192.0/23", "91.108.4.0/22", "91.108.8.0/22", "91.108.12.0/22", "91.108.16.0/22", "91.108.20.0/22", "91.108.56.0/22",
				"149.154.160.0/20", "185.76.151.0/24", "2001:67c:4e8::/48", "2001:b28:f23c::/48", "2001:b28:f23d::/48", "2001:b28:f23f::/48", "2a0a:f280::/32",
			},
		},
	}
}

// Amend changes one crawler, built-in or own, before New; it is in use from then on, even if it was not before. The
// error names the available crawlers.
func (c *CrawlersConfig) Amend(name string, change func(*CrawlerConfig)) error {
	c.Own = slices.Clone(c.Own)
	var names []string
	for i := range c.Own {
		if c.Own[i].Name == name {
			change(&c.Own[i])
			return nil
		}
		names = append(names, c.Own[i].Name)
	}
	for _, b := range builtinCrawlers() {
		names = append(names, b.Name)
		if b.Name != name {
			continue
		}
		if !c.FetchRanges {
			b.RangeURLs = nil
		}
		change(&b)
		c.Builtin = slices.DeleteFunc(slices.Clone(c.Builtin), func(n string) bool { return n == name })
		c.Own = append(c.Own, b)
		return nil
	}
	return fmt.Errorf("there is no crawler %q; there are %s", name, strings.Join(names, ", "))
}
