package cmd

import (
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	f := func(module, stamp, want string, settings ...debug.BuildSetting) {
		t.Helper()
		info := &debug.BuildInfo{Main: debug.Module{Version: module}, Settings: settings}
		if got := versionOf(info, stamp); got != want {
			t.Errorf("module %q, stamp %q, %v: got %q, want %q", module, stamp, settings, got, want)
		}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	modified := func(is string) debug.BuildSetting { return debug.BuildSetting{Key: "vcs.modified", Value: is} }
	f("v1.2.3", "stamped", "v1.2.3", revision, modified("false"))
	f("v0.0.0-20260101000000-0123456789ab+dirty", "", "v0.0.0-20260101000000-0123456789ab+dirty", revision, modified("true"))
	f("(devel)", "stamped", "0123456789ab", revision, modified("false"))
	f("(devel)", "", "0123456789ab+dirty", revision, modified("true"))
	f("(devel)", "abc123-dirty", "abc123-dirty")
	f("", "", "unknown")
}
