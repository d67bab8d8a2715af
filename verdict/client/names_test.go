package client

import (
	"bytes"
	"os"
	"testing"
)

// agents returns the User-Agents of a file in testdata/agents, which says where they come from.
func agents(t testing.TB, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile("testdata/agents/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all
}

// isProgram reports whether a client declares that no person sits there.
func isProgram(ua []byte) bool {
	switch ParseClaim(ua).Family {
	case FamilyRobot, FamilyCrawler, FamilyHeadless, FamilyLibrary:
		return true
	}
	return false
}

// TestRobotsByName: of a list that the names were not made from, most robots are known and next to no browser is
// mistaken for one. 42 % and none were before there was a list of names.
func TestRobotsByName(t *testing.T) {
	share := func(file string) float64 {
		all, programs := agents(t, file), 0
		for _, ua := range all {
			if isProgram(ua) {
				programs++
			} else if testing.Verbose() && file == "robots.txt" {
				t.Logf("not known: %s", ua)
			}
		}
		if len(all) < 250 {
			t.Fatalf("%s has only %d User-Agents", file, len(all))
		}
		return float64(programs) / float64(len(all))
	}
	robots, browsers := share("robots.txt"), share("browsers.txt")
	t.Logf("robots known %.1f %%, browsers mistaken %.1f %%", 100*robots, 100*browsers)
	if robots < 0.7 {
		t.Errorf("only %.1f %% of the robots are known", 100*robots)
	}
	if browsers > 0.015 { // these are tools in browsers: GTmetrix, YLT, Miniature.io
		t.Errorf("%.1f %% of the browsers are mistaken", 100*browsers)
	}
}

// TestPhonesAreNotRobots: makers call telephones as they like.
func TestPhonesAreNotRobots(t *testing.T) {
	f := func(ua string, want Family) {
		t.Helper()
		if got := ParseClaim([]byte(ua)).Family; got != want {
			t.Errorf("%s: %v, want %v", ua, got, want)
		}
	}
	chrome := func(device string) string {
		return "Mozilla/5.0 (Linux; Android 9; " + device + ") AppleWebKit/537.36 (KHTML, like Gecko) Chrome/87.0.4280.101 Mobile Safari/537.36"
	}
	for _, device := range []string{"CUBOT_X18_Plus", "CUBOT NOTE 20", "M bot 60 Build/NRD90M", "XBot_Senior", "IDbot553PLUS", "Spider 8", "HTC Butterfly", "SMART 4G Speedy", "fever_plus_h"} {
		f(chrome(device), FamilyChrome)
	}
	f(chrome("CUBOT_X18_Plus")+" (Ecosia android@87.0.4280.101)", FamilyChrome)
	f("Mozilla/5.0 (X11; Linux) AppleWebKit/537.36 (KHTML, like Gecko) Cubot/2 Chrome/87.0 Safari/537.36", FamilyChrome)
	f("Mozilla/5.0 (Linux; Android 14; SM-S918B; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/124.0 Mobile Safari/537.36 CamScanner/4.8", FamilyWebView)
	f("Mozilla/5.0 (Linux; Android 9) AppleWebKit/537.36 (KHTML, like Gecko) Silk/118.3.1 like Chrome/118.0 Safari/537.36", FamilyChrome)
	f("okhttp/4.9.0", FamilyApp)
	f("python-requests/2.31", FamilyLibrary)

	f(chrome("Pixel 2; Storebot-Google/1.0"), FamilyRobot)
	f(chrome("Nexus 5X; compatible; PetalishBot 1"), FamilyRobot)
	f(chrome("Nexus 5X; SomeBot/1.0"), FamilyRobot)
	f(chrome("K")+" (compatible; NewBot/1.0)", FamilyRobot)
	f("facebookexternalhit/1.1", FamilyRobot)
	f("ichiro/3.0 (mobile)", FamilyRobot)
	f("SomeTool (owner@example.org)", FamilyRobot)
	f("SomeTool (owner@example)", FamilyOther)
	f("Some@2.0 Tool", FamilyOther)
}

func BenchmarkParseClaim(b *testing.B) {
	all := agents(b, "browsers.txt")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ParseClaim(all[i%len(all)])
	}
}
