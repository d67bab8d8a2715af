package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Keys begin with a letter for their space. A feed's key is 'f', the topic behind its length in two bytes, and the
// sequence number in eight. Values begin with the expiry in Unix milliseconds in eight bytes, 0 for never; a counter's
// value has eight bytes. Feed messages have no header. Numbers are big-endian.
const (
	spaceClock = 'c' // one key: the clock's horizon, and how long it has been behind
	spaceFeed  = 'f'
	spaceKV    = 'k'
	spaceOnce  = 'o'
	spaceQuota = 'q'
)

const header = 8

var errNoValue = errors.New("a value without its header")

func spaceKey(space byte, key []byte) []byte {
	return append(append(make([]byte, 0, 1+len(key)), space), key...)
}

func appendHeader(dst []byte, expiry int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(expiry))
}

func split(val []byte) (expiry int64, payload []byte, err error) {
	if len(val) < header {
		return 0, nil, fmt.Errorf("%w: %w", errDamaged, errNoValue)
	}
	return int64(binary.BigEndian.Uint64(val)), val[header:], nil
}

func expired(expiry, at int64) bool { return expiry != 0 && at >= expiry }

// after returns the first key after all keys with the prefix, or nil.
func after(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := append([]byte(nil), prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}

const maxTopic = 1<<16 - 1

func topicPrefix(topic string) []byte {
	k := make([]byte, 0, 1+2+len(topic)+8)
	k = append(k, spaceFeed)
	k = binary.BigEndian.AppendUint16(k, uint16(len(topic)))
	return append(k, topic...)
}

func feedKey(prefix []byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, len(prefix)+8), prefix...), n)
}

func feedNumber(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// load returns a copy of the live value; the expiry also of an expired one.
func load(b *pebble.Batch, key []byte, at int64) (live bool, payload []byte, expiry int64, err error) {
	val, closer, err := b.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil, 0, nil
	}
	if err != nil {
		return false, nil, 0, fmt.Errorf("read store: %w", err)
	}
	defer closer.Close()
	expiry, payload, err = split(val)
	if err != nil || expired(expiry, at) {
		return false, nil, expiry, err
	}
	return true, append([]byte(nil), payload...), expiry, nil
}

func set(b *pebble.Batch, key []byte, expiry int64, payload []byte) error {
	op := b.SetDeferred(len(key), header+len(payload))
	copy(op.Key, key)
	copy(appendHeader(op.Value[:0], expiry)[header:header+len(payload)], payload)
	return op.Finish()
}
