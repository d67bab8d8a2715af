package console

import (
	"strings"
	"testing"
)

// TestChallengesPage: the page shows each step of the challenges, in their order, and the devices.
func TestChallengesPage(t *testing.T) {
	c, err := New(Deps{API: new(gate)})
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := open(t, c).signIn(viewerToken).ask("/console/challenges", "")
	for _, want := range []string{"Shown 4 → Loaded 3 → Tried 2 → Solved 1 (25 %) → Came back 1,", "<caption>By device</caption>", "<td>phone</td><td>4</td><td>3</td>"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
}
