package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// logged reads a log as a start does: of several records with one key the last one holds.
func logged(t *testing.T, path string) (map[string]string, LogRead) {
	t.Helper()
	got := map[string]string{}
	n, err := ReadLog(path, func(r Logged) error { got[string(r.Key)] = string(r.Val); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return got, n
}

// table is what a log is compacted to.
type table map[string]string

func (m table) each(put func(Logged) error) (err error) {
	for k, v := range m {
		err = errors.Join(err, put(Logged{Key: []byte(k), Val: []byte(v)}))
	}
	return err
}

func nothing(func(Logged) error) error { return nil }

// TestLocalLogSurvivesAKill: what was appended is in the file without Close, and a log that is opened again has it after its
// compaction, if it is still live.
func TestLocalLogSurvivesAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := OpenLog(path, time.Now, zerolog.Nop(), nothing)
	for i := range 300 {
		l.Append(Logged{Key: fmt.Appendf(nil, "key %d", i%200), Val: fmt.Appendf(nil, "value %d", i)})
	}
	l.Flush() // the writer does so at once
	got, n := logged(t, path)
	if len(got) != 200 || n.Records != 300 || got["key 99"] != "value 299" || got["key 199"] != "value 199" {
		t.Errorf("after 300 records the file has %d of %d keys, %q, %q", n.Records, len(got), got["key 99"], got["key 199"])
	}
	got["key 199"] = "newer"
	again := OpenLog(path, time.Now, zerolog.Nop(), table(got).each)
	again.Append(Logged{Key: []byte("one more")})
	if err := errors.Join(again.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if got, n = logged(t, path); len(got) != 201 || n.Records != 201 || got["key 199"] != "newer" {
		t.Errorf("after a compaction the file has %d records of %d keys, %q", n.Records, len(got), got["key 199"])
	}
	var none *LocalLog
	none.Append(Logged{})
	none.Stamp()
	none.Flush()
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}

// TestLocalLogIsBounded: a log that takes the same keys again and again is compacted, and loses nothing by that.
func TestLocalLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		live := table{}
		l := OpenLog(path, time.Now, zerolog.Nop(), live.each)
		val := bytes.Repeat([]byte("x"), 1<<10)
		var most int64
		for round := range 200 {
			for i := range 100 {
				k := fmt.Sprintf("key %d", i)
				v := fmt.Sprintf("%d %s", round, val)
				live[k] = v
				l.Append(Logged{Key: []byte(k), Val: []byte(v)})
			}
			l.Flush()
			time.Sleep(logPatience + logSync)
			synctest.Wait()
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, info.Size())
		}
		if most > 2*110<<10+logSlack+110<<10 {
			t.Errorf("100 keys of 1 KiB take up to %d bytes", most)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		got, n := logged(t, path)
		for k, v := range live {
			if got[k] != v {
				t.Fatalf("%s is %.10q; want %.10q", k, got[k], v)
			}
		}
		if n.Damaged > 0 {
			t.Errorf("%d damaged places", n.Damaged)
		}
	})
}

// TestLocalLogOnAFullDisk: a log in a directory that is gone takes records again when the directory is back.
func TestLocalLogOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		path := filepath.Join(dir, "log")
		live := table{"a": "1"}
		l := OpenLog(path, time.Now, zerolog.Nop(), live.each)
		l.Append(Logged{Key: []byte("a"), Val: []byte("1")})
		l.Flush()
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * logPatience)
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got, _ := logged(t, path); got["a"] != "1" {
			t.Errorf("the log has %v", got)
		}
	})
}

// damagedLog is a file of ten records, and where each frame begins.
func damagedLog(t testing.TB) (file []byte, starts []int) {
	t.Helper()
	file = appendStamp(nil, time.UnixMilli(1e12))
	for i := range 10 {
		starts = append(starts, len(file))
		var err error
		if file, err = appendRecord(file, &Logged{Key: fmt.Appendf(nil, "key %d", i), Val: []byte("value"), Until: time.UnixMilli(1)}); err != nil {
			t.Fatal(err)
		}
	}
	return file, append(starts, len(file))
}

// TestDamagedLocalLog: a torn tail costs the last record, and a flipped byte at most the record that it is in.
func TestDamagedLocalLog(t *testing.T) {
	file, starts := damagedLog(t)
	read := func(b []byte) (n int) {
		whole, err := readLog(bytes.NewReader(b), func(Logged) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return whole.Records
	}
	for end := range file {
		whole := 0
		for _, s := range starts[1:] {
			if s <= end {
				whole++
			}
		}
		if n := read(file[:end]); n != whole {
			t.Errorf("of a file cut after %d bytes %d records are read; want %d", end, n, whole)
		}
	}
	for i := range file {
		b := bytes.Clone(file)
		b[i] ^= 0x55
		if n := read(b); n < 9 || n < 10 && i < starts[0] {
			t.Errorf("with byte %d flipped %d of 10 records are read", i, n)
		}
	}
	if n := read(append(append(bytes.Clone(file[:starts[5]+3]), make([]byte, 300_000)...), file[starts[5]:]...)); n != 10 {
		t.Errorf("around 300 kB of zeros %d of 10 records are read", n)
	}
}

// FuzzReadLog: no file makes the reader fail or repeat itself, and what it reads can be written and read again.
func FuzzReadLog(f *testing.F) {
	file, starts := damagedLog(f)
	f.Add(file)
	f.Add(file[:starts[3]+5])
	f.Add(append(append(file[:4:4], file[:4]...), append([]byte("\xff\xff\xff\xff"), file...)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		again := appendStamp(nil, time.UnixMilli(0))
		n, err := readLog(bytes.NewReader(b), func(r Logged) (err error) {
			again, err = appendRecord(again, &r)
			if errors.Is(err, errTooLong) { // a reader takes a few bytes more than a writer
				t.Skip()
			}
			return err
		})
		if err != nil || n.Records+n.Damaged > len(b) {
			t.Fatalf("%+v, %v of %d bytes", n, err, len(b))
		}
		m, err := readLog(bytes.NewReader(again), func(Logged) error { return nil })
		if err != nil || m.Records != n.Records || m.Damaged != 0 {
			t.Fatalf("read %+v, and again %+v, %v", n, m, err)
		}
	})
}
