package cbb

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDefaultConfigIsValid(t *testing.T) {
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if !slices.Contains(c.Crawlers.Builtin, "googlebot") || c.Refresh != 5*time.Minute ||
		c.RefreshWhite != 24*time.Hour {
		t.Errorf("%+v", c)
	}
}

func TestValidateNamesEveryProblem(t *testing.T) {
	c := DefaultConfig()
	c.Refresh, c.RefreshWhite = time.Second, 0
	c.Lists = []ListConfig{
		{Name: "a", Flag: "block", URL: "http://x.example/"},
		{Name: "a", Flag: "grey", URL: "http://x.example/", File: "/x"},
		{Name: "../x", Flag: "ban", URL: "file:///etc/passwd"},
		{Name: "api", Flag: "white", URL: "https:///x"},
		{Name: "own", Flag: "block", URL: "http://u:p@x.example/\x00secret", Own: true},
		{Name: "e", Flag: "block", Entries: []string{"10.0.0.0/8", "10.0.0.0/7", "x"}},
		{
			Name: "f", Flag: "block", File: "f", Format: "xml", Refresh: time.Second, MaxEntries: -1, MinCount: -1,
			MaxBadShare: -1,
		},
		{Name: "n", Flag: "block"},
	}
	c.Block = []string{"10.0.0.1", "nonsense why", "0.0.0.0/0"}
	c.Ban = []string{"L:"}
	c.White = []string{"::/0 everybody", ""}
	c.Patterns = []PatternConfig{{Name: "p", Flag: "block", Path: "/"}, {Name: "p", Flag: "block", PathRegex: "("}}
	c.Crawlers.Builtin = append(c.Crawlers.Builtin, "nobot")
	c.Crawlers.Own = []CrawlerConfig{
		{Name: "googlebot", UserAgent: []string{"Googlebot"}, ReverseDNS: []string{"com", "*.x.example"}},
		{Name: "b", UserAgent: []string{" "}, UserAgentRegex: []string{"("}},
		{
			Name:       "c",
			ReverseDNS: []string{"c.example"},
			RangeURLs:  []string{"ftp://x"},
			RangeFiles: []string{""},
			Ranges:     []string{"0.0.0.0/0"},
		},
	}
	c.Crawlers.ProvisionalRequests = -1
	err := c.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	var got []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		path, _, _ := strings.Cut(line, ": ")
		got = append(got, path)
	}
	want := strings.Fields(`
		refresh refresh_white
		lists[1].name lists[1].flag lists[1] lists[2].name lists[2].url lists[3].name lists[3].url lists[4].url lists[4].own
		lists[5].entries[1] lists[5].entries[2] lists[6].format lists[6].refresh lists[6].max_entries lists[6].min_count lists[6].max_bad_share lists[7]
		block[1] block[2] ban[0] white[1] patterns[1].path_regex patterns[1].name
		crawlers.builtin[14] crawlers.own[0].name crawlers.own[0].reverse_dns[0] crawlers.own[0].reverse_dns[1]
		crawlers.own[1] crawlers.own[1].user_agent[0] crawlers.own[1].user_agent_regex
		crawlers.own[2].user_agent crawlers.own[2].range_urls[0] crawlers.own[2].range_files[0] crawlers.own[2].ranges[0]
		crawlers.provisional_requests`)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error("the error shows a URL")
	}
	if _, err := New(c, Deps{}); err == nil {
		t.Error("New takes it")
	}
}

func TestWideEntriesOfTheOperator(t *testing.T) {
	c := config(func(c *Config) { c.Block, c.AllowWide = []string{"0.0.0.0/0 closed for a day"}, true })
	l := open(t, c, nil)
	if got := said(l, "8.8.8.8", ""); got != "inline - - -" {
		t.Errorf("%s", got)
	}
	if err := l.Add(t.Context(), Ban, "::/0", 0, "", ""); err != nil {
		t.Error(err)
	}
}
