package counter

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"antirobot/store"
)

func TestKeyGolden(t *testing.T) {
	at := time.Date(2023, 11, 2, 7, 50, 0, 0, time.UTC)
	c := store.Counter{Prefix: "mass_in", Shingle: 0x5791f8cac2b7d8dd, Type: TypeFrom}
	for unit, want := range map[store.Unit]string{
		store.TenMinutes: "mass_in_5791f8cac2b7d8dd_14_10m_2831519",
		store.Day:        "mass_in_5791f8cac2b7d8dd_14_1d_19663",
	} {
		k := Key{c, store.Period{Unit: unit, Number: unit.Number(at)}}
		if got := k.String(); got != want {
			t.Errorf("printed %s; want %s", got, want)
		}
		if got, err := ParseKey(want); err != nil || got != k {
			t.Errorf("ParseKey(%s) = %+v, %v", want, got, err)
		}
	}
	k, err := ParseKey("mass_in_5791f8cac2b7d8dd_14_10m_2831519")
	if err != nil || !k.Start().Equal(at) {
		t.Errorf("starts at %v, %v; want %v", k.Start(), err, at)
	}
}

func TestParseKeyRefuses(t *testing.T) {
	const ok = "p_0000000000000001_8_1d_1"
	if _, err := ParseKey(ok); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"", "p", "_0000000000000001_8_1d_1", "0000000000000001_8_1d_1",
		"p_000000000000001_8_1d_1", "p_00000000000000001_8_1d_1", "p_000000000000000g_8_1d_1", "p_000000000000000A_8_1d_1",
		"p_+000000000000001_8_1d_1", "p_0000000000000001_08_1d_1", "p_0000000000000001_65536_1d_1", "p_0000000000000001_-1_1d_1",
		"p_0000000000000001_8_1h_1", "p_0000000000000001_8_1d_4294967296", "p_0000000000000001_8_1d_01", "p_0000000000000001_8_1d_",
		"p p_0000000000000001_8_1d_1", "p\x00_0000000000000001_8_1d_1", "é_0000000000000001_8_1d_1",
		strings.Repeat("p", store.MaxPrefix+1) + "_0000000000000001_8_1d_1",
	} {
		if k, err := ParseKey(s); !errors.Is(err, errKey) {
			t.Errorf("ParseKey(%q) = %+v, %v", s, k, err)
		}
	}
}

func TestKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Key{
			store.Counter{
				Prefix:  rapid.StringMatching(`[a-zA-Z0-9_.-]{1,64}`).Draw(t, "prefix"),
				Shingle: rapid.Uint64().Draw(t, "shingle"), Type: rapid.Uint16().Draw(t, "type"),
			},
			store.Period{Unit: rapid.SampledFrom([]store.Unit{store.TenMinutes, store.Day}).Draw(t, "unit"), Number: rapid.Uint32().Draw(t, "number")},
		}
		if got, err := ParseKey(k.String()); err != nil || got != k {
			t.Fatalf("%s came back as %+v, %v", k, got, err)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add("mass_in_5791f8cac2b7d8dd_14_10m_2831519")
	f.Add("mass_in_5791f8cac2b7d8dd_14_1d_19663")
	f.Add("____")
	f.Fuzz(func(t *testing.T, s string) {
		k, err := ParseKey(s)
		if err == nil && k.String() != s {
			t.Fatalf("%q is read as %s", s, k)
		}
	})
}
