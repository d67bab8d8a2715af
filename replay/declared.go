package replay

import (
	"bytes"

	"antirobot/request"
)

// robotWords are parts of the User-Agents of programs that identify themselves, in lower case.
var robotWords = [...]string{
	"bot", "crawl", "spider", "slurp", "curl/", "wget", "python", "java/", "go-http-client", "libwww", "scrapy",
	"httpclient",
	"okhttp", "headless", "phantom", "feed", "rss", "fetch", "monitor", "scan", "http://", "https://", "@", "perl",
	"ruby", "axios",
}

// declaresRobot reports whether a User-Agent says that it is a program, or is empty.
func declaresRobot(agent []byte) bool {
	if len(agent) == 0 {
		return true
	}
	var buf [256]byte
	low := request.AppendLower(buf[:0], agent[:min(len(agent), len(buf))])
	for _, w := range robotWords {
		if bytes.Contains(low, []byte(w)) {
			return true
		}
	}
	return false
}
