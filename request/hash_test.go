package request

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"testing"
)

// TestHashFirm: targets that are made to have the same Hash, whatever page they name, have different ones here.
func TestHashFirm(t *testing.T) {
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
		h := HashFirm(target)
		if seen[h] {
			t.Fatalf("%q has the hash of another", target)
		}
		seen[h] = true
	}
	for n := range 64 { // every byte counts, in every place
		b := make([]byte, n+1)
		for i := range b {
			b[i] = 1
			if h := HashFirm(b); seen[h] {
				t.Errorf("byte %d of %d has no effect", i, n)
			} else {
				seen[h] = true
			}
			b[i] = 0
		}
	}
}

func BenchmarkHashFirm(b *testing.B) {
	target := []byte("/catalogue/shoes/4711?page=3&sort=price")
	b.ReportAllocs()
	for b.Loop() {
		HashFirm(target)
	}
}
