package identity

import "testing"

// TestAgentFamilyAllocates checks that nothing is allocated: it runs on the request's path where a pass comes from
// elsewhere.
func TestAgentFamilyAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ua := []byte("Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0")
	if n := testing.AllocsPerRun(100, func() { AgentFamily(ua) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
