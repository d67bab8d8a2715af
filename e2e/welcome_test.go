package e2e

import (
	"strings"
	"testing"
)

// TestServeSaysWhatItDoes reads the five lines for people, and looks first: with --observe nobody is stopped.
func TestServeSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	upstream := site(t).URL
	g := serve(t, upstream, "--observe")
	for _, want := range []string{
		"antirobot: protects default at " + upstream, "visitors come to " + g.url + "; robots are only looked at",
		"the private listener is at " + g.admin + ", its token in " + g.dir + "/admin.token", "to stop robots: ", "SIGHUP reloads",
	} {
		if g.logs.find(func(line string) bool { return !strings.HasPrefix(line, "{") && strings.Contains(line, want) }) == "" {
			t.Errorf("no line says %q:\n%s", want, g.logs)
		}
	}
	g.ban("ip:127.0.0.1", "10m")
	r := visitor(t).get(g.url+"/").must(t, 200, "site got")
	if s := g.whyIn(t, "observed", r); s.Verdict != "robot" || s.Mode != "observe" {
		t.Errorf("%s in mode %s", s.Verdict, s.Mode)
	}
}
