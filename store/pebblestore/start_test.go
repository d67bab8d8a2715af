package pebblestore

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"antirobot/servertest"
)

// fullDiskEnv marks the child process of TestStartOnAFullDisk.
const fullDiskEnv = "ANTIROBOT_TEST_FULL_DISK"

// TestStartOnAFullDisk: a start on a full disk fails soon, says why, and does not flood the log; when there is room it
// works. The disk is either completely full, or just lacks room for the file that Pebble would retry forever.
func TestStartOnAFullDisk(t *testing.T) {
	if os.Getenv(fullDiskEnv) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestStartOnAFullDisk$", "-test.count=1")
		cmd.Env = append(os.Environ(), fullDiskEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for _, only := range []string{"", "MANIFEST", "OPTIONS", ".log", ".dbtmp"} {
		t.Run("files with "+only, func(t *testing.T) {
			dir := t.TempDir()
			fs := &faultyFS{FS: vfs.Default, only: only}
			s, err := New(Deps{Dir: dir, Log: zerolog.Nop(), fs: fs, limit: few})
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			must(t, errors.Join(s.Put(ctx, []byte("k"), []byte("v"), 0), s.Close()))
			fs.full.Store(true)
			log := new(servertest.Log)
			type end struct {
				s   *Store
				err error
			}
			ended := make(chan end, 1)
			go func() {
				s, err := New(Deps{Dir: dir, Log: zerolog.New(log), fs: fs, limit: few})
				ended <- end{s, err}
			}()
			select {
			case e := <-ended:
				if e.err == nil {
					_ = e.s.Close()
					if only == "" || only == "MANIFEST" {
						t.Fatal("it starts")
					}
				} else if !errors.Is(e.err, syscall.ENOSPC) && !strings.Contains(e.err.Error(), "no space left") {
					t.Errorf("the error does not say why: %v", e.err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("the start hangs")
			}
			time.Sleep(300 * time.Millisecond) // whatever is left of it must be quiet
			if n := strings.Count(log.String(), "\n"); n > 10 {
				t.Errorf("%d lines are logged", n)
			}
			fs.full.Store(false)
			s, err = New(Deps{Dir: dir, Log: zerolog.Nop(), fs: fs, limit: few})
			if err != nil {
				t.Fatalf("when there is room: %v", err)
			}
			defer func() { _ = s.Close() }()
			if v, err := s.Get(ctx, nil, []byte("k")); err != nil || string(v) != "v" {
				t.Errorf("%q, %v", v, err)
			}
		})
	}
}
