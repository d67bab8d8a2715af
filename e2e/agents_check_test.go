//go:build agents

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"antirobot/servertest"
)

// TestAgentsAtTheCheck asks browsers that are driven, each by its tool as it starts and hidden, for a silent check, and prints what they met: the page, or digits. It has no
// figures to hold, either.
func TestAgentsAtTheCheck(t *testing.T) {
	var table []string
	for _, tool := range chosen(t) {
		for _, dress := range []string{plain, named, hidden} {
			t.Run(tool.name+", "+dress, func(t *testing.T) {
				g := start(t, "serve", "--config", configFile(t, "services: [{name: site, upstream: {urls: [%q]}, captcha: {steps: {robot: silent}}}]", leaflets(t)))
				g.ban("ip:127.0.0.1", "1h")
				b, lacks := tool.launch(t, dress)
				if lacks != "" {
					servertest.Lack(t, lacks, "tools/deps.sh agents")
				}
				b.open(g.url + "/page/1")
				met := ""
				eventually(t, "what it meets", func() bool {
					switch at := b.at(); {
					case strings.HasSuffix(at, "/page/1"):
						met = "the page"
					case strings.Contains(at, "step=digits"):
						met = "digits"
					}
					return met != ""
				})
				table = append(table, fmt.Sprintf("%-20s %-14s %s", tool.name, dress, met))
			})
		}
	}
	slices.Sort(table)
	t.Log("\n" + strings.Join(table, "\n"))
}
