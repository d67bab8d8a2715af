package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// clockEnv names the file that says by how many seconds the clock of a program of anotherClock is ahead.
const clockEnv = "ANTIROBOT_TEST_CLOCK"

// aheadSource is added to package time.
const aheadSource = `package time

import (
	"sync/atomic"
	"syscall"
)

var ahead atomic.Int64

func init() {
	file, ok := syscall.Getenv("` + clockEnv + `")
	if !ok {
		return
	}
	go func() {
		for ; ; Sleep(20 * Millisecond) {
			var b [16]byte
			fd, err := syscall.Open(file, syscall.O_RDONLY, 0)
			if err != nil {
				continue
			}
			n, _ := syscall.Read(fd, b[:])
			_ = syscall.Close(fd)
			if sec, err := atoi(string(b[:max(n, 0)])); err == nil {
				ahead.Store(int64(sec))
			}
		}
	}()
}
`

// anotherClock builds the program with a package time whose Now is ahead by what a file says: a wrong clock of one process, which
// Linux has no name space for, and which a preloaded library can't give to a program that does not ask libc.
func anotherClock(t *testing.T) (bin string) {
	t.Helper()
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = ".."
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	dir, source := t.TempDir(), filepath.Join(run("env", "GOROOT"), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reads) != 1 {
		t.Fatal("time.Now reads the clock in another way now: adapt this test")
	}
	patched := strings.Replace(string(text), reads, reads+"\tsec += ahead.Load()\n", 1)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(source, "time.go"):  writeFile(t, "time.go", patched),
		filepath.Join(source, "ahead.go"): writeFile(t, "ahead.go", aheadSource),
	}})
	if err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(dir, "antirobot")
	run("build", "-overlay", writeFile(t, "overlay.json", string(overlay)), "-o", bin, ".")
	return bin
}

// program is what runs the gateway.
func (g *gateway) program(args []string) *exec.Cmd {
	g.t.Helper()
	if g.clock != "" {
		cmd := exec.Command(anotherClock(g.t), args...)
		cmd.Env = append(os.Environ(), clockEnv+"="+g.clock)
		return cmd
	}
	bin, err := binary()
	if err != nil {
		g.t.Fatal(err)
	}
	return exec.Command(bin, args...)
}

// clock is a fault that sets the clock of the second gateway while passes are earned at both, for questions of both.
func clock(ahead time.Duration) func(x *rig, d time.Duration) {
	return func(x *rig, d time.Duration) {
		g := x.all[1]
		x.setClock(ahead)
		eventually(x.t, "the gateway says that its clock is wrong", func() bool {
			_, err := g.health()
			return strings.Contains(err, "clock")
		})
		for i, asks := range x.all {
			for k, answered := range x.all {
				x.passes(asks, answered, rigBanned(2*i+k))
			}
		}
		x.during(d)
		x.setClock(0)
	}
}

// setClock sets how far the clock of the second gateway is ahead.
func (x *rig) setClock(ahead time.Duration) {
	x.t.Helper()
	if err := os.WriteFile(x.all[1].clock, []byte(strconv.Itoa(int(ahead/time.Second))), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

// passes lets a banned visitor be asked by one gateway, answer at one, and go on at both: a wrong answer is counted.
func (x *rig) passes(asks, answered *gateway, addr string) {
	x.t.Helper()
	v := visitor(x.t)
	v.header.Set("X-Forwarded-For", addr)
	answers := []*response{asks.solveAt(v, "/x", answered)}
	for _, g := range x.all {
		answers = append(answers, v.get(g.url+"/x"))
	}
	for i, want := range []int{http.StatusSeeOther, http.StatusOK, http.StatusOK} {
		x.served.Add(1)
		if got := answers[i].StatusCode; got != want {
			x.wrong.Add(1)
			x.t.Errorf("answer %d of a visitor who is asked at %s and answers at %s: %d, want %d", i, asks.url, answered.url, got, want)
		}
	}
}
