package learn

import (
	"antirobot/request"
)

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func hashRunes(runes []rune) uint64 {
	h := uint64(fnvOffset)
	for _, r := range runes {
		h = (h ^ uint64(r)) * fnvPrime
	}
	return mix64(h)
}

func hashString(s string) uint64 {
	h := uint64(fnvOffset)
	for i := range len(s) {
		h = (h ^ uint64(request.Lower(s[i]))) * fnvPrime
	}
	return mix64(h)
}

func mix64(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
