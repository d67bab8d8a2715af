package cbb

// builtinCrawlers returns the search engines that publish how to verify them. The facts are from the publishers' own
// pages; see testdata/SOURCE.md. Robots that are not search engines are not here: whom to welcome is the operator's
// choice.
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
	}
}
