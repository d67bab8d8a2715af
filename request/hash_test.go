package request

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"testing"
)

// TestHashKey compares Sum with the SipHash-1-3 of CPython, whose keys are made from PYTHONHASHSEED.
func TestHashKey(t *testing.T) {
	f := func(seed uint32, in string, want uint64) {
		t.Helper()
		var b [16]byte
		if x := seed; seed != 0 {
			for i := range b {
				x = x*214013 + 2531011
				b[i] = byte(x >> 16)
			}
		}
		k := HashKey{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
		if got := k.Sum([]byte(in)); got != want {
			t.Errorf("seed %d, %q: got %#x, wanted %#x", seed, in, got, want)
		}
	}
	const target = "/catalogue/shoes/4711?page=3&sort=price"
	f(0, "a", 0x407448d2b89b1813)
	f(0, "/product", 0x905a0fde32cdab9b)
	f(0, target, 0xb8f6348f49b30fc6)
	f(1, "a", 0xd6300bc9f7cc0e73)
	f(1, "/product", 0x72714999b9c86c9a)
	f(1, target, 0x6ede985b8ad12cc6)
	f(4711, "a", 0x161e983fde8764e1)
	f(4711, "/product", 0xc9a6cfd5ed87e86c)
	f(4711, target, 0xf78a04840197bc4c)
}

// TestNobodyChoosesAHash: targets that are made to have the same Hash, whatever page they name, have different ones
// here, and others with another key.
func TestNobodyChoosesAHash(t *testing.T) {
	known, other := HashKey{}, HashKey{1, 2}
	seen, same := map[uint64]bool{}, uint64(0)
	for page := range 1000 {
		path := []byte("/product/" + strconv.Itoa(1000+page) + "?z=") // 16 bytes
		x := uint64(len(path)+8) ^ 0xa0761d6478bd642f
		for i := 0; i < len(path); i += 8 {
			hi, lo := bits.Mul64(x^binary.LittleEndian.Uint64(path[i:]), 0xe7037ed1a0b428db)
			x = hi ^ lo ^ 0xa0761d6478bd642f
		}
		target := binary.LittleEndian.AppendUint64(path, x) // leads back to a known state
		if h := Hash(target); page == 0 {
			same = h
		} else if h != same {
			t.Fatal("the targets were to have the same Hash")
		}
		for _, k := range [...]HashKey{known, other} {
			h := k.Sum(target)
			if seen[h] {
				t.Fatalf("%q has the hash of another", target)
			}
			seen[h] = true
		}
	}
	for n := range 64 { // every byte counts, in every place
		b := make([]byte, n+1)
		for i := range b {
			b[i] = 1
			if h := known.Sum(b); seen[h] {
				t.Errorf("byte %d of %d has no effect", i, n)
			} else {
				seen[h] = true
			}
			b[i] = 0
		}
	}
}
