package e2e

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// obeyed returns the first character of a text that a terminal, or a program that reads lines, would not merely show.
func obeyed(text string) string {
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\t' || 0x7f <= c && c < 0xa0 || 0x2028 <= c && c <= 0x202e {
			return fmt.Sprintf("%U", c)
		}
	}
	return ""
}

// TestWhatStrangersWriteIsOnlyShown: characters by which a visitor could change a terminal's colours, title or direction, begin a line of
// the log, or a formula in a spreadsheet, reach the log, the commands, the API and the export as text.
func TestWhatStrangersWriteIsOnlyShown(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--upstream", site(t).URL)
	g.ban("ip:127.0.0.1", "1h")
	const odd = "\u009b31m\u009d0;title\u009c\u0085\u2028\u202e"
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "GET /%s<script>;=cmd HTTP/1.1\r\nHost: a.example\r\nUser-Agent: %s\"\\<b>; =cmd|'/c calc'!A1;=cmd\r\nReferer: http://a.example/%s\r\n\r\n", odd, odd, odd)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	id := answer.Header.Get("X-Request-Id")
	if answer.StatusCode != http.StatusForbidden || id == "" {
		t.Fatalf("%d, number %q", answer.StatusCode, id)
	}
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	shown := func(args ...string) string {
		out, err := exec.Command(bin, append(args, "--admin", strings.TrimPrefix(g.admin, "http://"), "--data-dir", g.dir)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	eventually(t, "the journal has the request", func() bool { return strings.Contains(shown("tail", "--follow=false"), id) })
	for what, text := range map[string]string{
		"the log":  g.logs.find(func(line string) bool { return strings.Contains(line, id) && strings.Contains(line, "decision") }),
		"the line": g.logs.find(func(line string) bool { return strings.Contains(line, id) && strings.Contains(line, `"access"`) }),
		"tail":     shown("tail", "--follow=false"), "why": shown("why", id), "why --json": shown("why", id, "--json"),
		"top": shown("top", "--by", "agent"), "paths": shown("top", "--by", "path"), "API": string(g.api("GET", "/api/journal?limit=5", nil)),
	} {
		if c := obeyed(text); c != "" || !utf8.ValidString(text) {
			t.Errorf("%s has %s: %q", what, c, text)
		}
		if !strings.Contains(text, `\u009b31m`) {
			t.Errorf("%s does not show what was sent: %q", what, text)
		}
	}
	var line struct{ Path, Referer string }
	if err := json.Unmarshal([]byte(g.logs.find(func(s string) bool { return strings.Contains(s, id) })), &line); err != nil ||
		!strings.HasPrefix(line.Path, "/"+odd) || line.Referer != "http://a.example/"+odd {
		t.Errorf("the log's line says %q, %v", line, err)
	}
	console := visitor(t)
	console.do("POST", g.admin+"/console/signin", "secret="+g.token, "Content-Type", "application/x-www-form-urlencoded").must(t, http.StatusSeeOther, "")
	rows, err := csv.NewReader(strings.NewReader(console.get(g.admin+"/console/requests.csv").must(t, http.StatusOK, id).body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for _, cell := range row {
			for _, begin := range strings.Split(cell, ";") { // as spreadsheets do in many countries
				if begin = strings.TrimLeft(begin, ` "`); begin != "" && strings.ContainsAny(begin[:1], "=+-@") {
					t.Errorf("a cell begins with a formula: %q", cell)
				}
			}
		}
	}
	console.get(g.admin+"/console/requests").must(t, http.StatusOK, "&lt;script&gt;")
}
