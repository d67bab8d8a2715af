package servertest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// result is a test that notes how it ended.
type result struct {
	testing.TB
	skipped, failed string
}

func (r *result) Helper()      {}
func (r *result) Name() string { return "TestThing" }
func (r *result) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *result) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func try(f func(t testing.TB)) *result {
	r := &result{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(r)
	}()
	<-ended
	return r
}

// TestNeed: a test that lacks something is skipped with a message and noted for the summary, and fails with CI set.
func TestNeed(t *testing.T) {
	noted := filepath.Join(t.TempDir(), "skipped")
	t.Setenv(skippedEnv, noted)
	t.Setenv("CI", "")
	if r := try(func(t testing.TB) { Need(t, "no-such-program", "go") }); r.skipped+r.failed != "" {
		t.Errorf("go is not found: %+v", r)
	}
	lacks := map[string]func(t testing.TB){
		"no-such-program\tmake deps":        func(t testing.TB) { Need(t, "no-such-program") },
		"python3-no_such_module\tmake deps": func(t testing.TB) { Python(t, "no_such_module") },
		"no-such-tool\tmake tools":          func(t testing.TB) { Tool(t, "no-such-tool") },
	}
	for want, f := range lacks {
		what, how, _ := strings.Cut(want, "\t")
		if r := try(f); r.skipped != "SKIPPED for want of "+what+": "+how || r.failed != "" {
			t.Errorf("%s: %+v", what, r)
		}
		if b, err := os.ReadFile(noted); err != nil || !strings.Contains(string(b), want+"\tTestThing\n") {
			t.Errorf("%s is noted as %q: %v", what, b, err)
		}
	}
	t.Setenv("CI", "true")
	for what, f := range lacks {
		if r := try(f); r.skipped != "" || !strings.Contains(r.failed, "nothing may be skipped") {
			t.Errorf("in CI, %s: %+v", what, r)
		}
	}
}
