package redisstore

import (
	"time"
)

// Keys are prefix, {tag}, a letter for their kind, and the caller's key. The tag is one of 256, by a hash of the key: all
// keys of a tag live on one shard, and 256 tags are enough to spread keys evenly over the shards of a large cluster.
const (
	tags       = 256
	kvBuckets  = 64 // for values: each bucket has an index
	letterKV   = 'k'
	letterIdx  = 'i'
	letterOnce = 'o'
	letterUsed = 'q'
	letterFeed = 'f'
	letterCnt  = 'c'
	letterNum  = 'n' // for the numbers of batches of counts
	letterOwn  = 'x' // for the store itself

	letterEvents = 'e'
)

// hash is FNV-1a with a finalizer that spreads it; it is part of the format.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}

const hexDigits = "0123456789abcdef"

// appendHead appends the part of a key before the caller's key.
func (s *Store) appendHead(dst []byte, tag uint64, letter byte) []byte {
	dst = append(dst, s.cfg.KeyPrefix...)
	return append(dst, '{', hexDigits[tag>>4&15], hexDigits[tag&15], '}', letter)
}

func (s *Store) key(letter byte, tag uint64, key []byte) string {
	b := make([]byte, 0, len(s.cfg.KeyPrefix)+5+len(key))
	return string(append(s.appendHead(b, tag, letter), key...))
}

func (s *Store) spread(letter byte, key []byte) string { return s.key(letter, hash(key)%tags, key) }

// value returns the keys of a value and of its bucket's index.
func (s *Store) value(key []byte) []string {
	tag := hash(key) % kvBuckets
	return []string{s.key(letterKV, tag, key), s.index(tag)}
}

func (s *Store) index(bucket uint64) string { return s.key(letterIdx, bucket, nil) }

// maxTTL is the longest that a server can count: nobody will see anything expire beyond it.
const maxTTL = int64(1) << 52

// millis converts a ttl for the servers; 0 is no expiry. It is rounded up and reduced by one: a server's key lives through
// the whole of its last millisecond, ours end when it begins.
func millis(ttl time.Duration) int64 {
	ms := int64(ttl / time.Millisecond)
	if ttl%time.Millisecond != 0 {
		ms++
	}
	if ms > 1 {
		ms--
	}
	return min(ms, maxTTL)
}
