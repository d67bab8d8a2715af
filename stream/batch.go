package stream

import (
	"errors"
	"fmt"
	"time"

	"antirobot/request"
	"antirobot/varint"
	"antirobot/verdict"
)

// A batch on the wire: version, the name of its publisher, its number in this partition, the base of its events' times
// (unix microseconds), and the events.
const (
	batchVersion = 1
	headLength   = 1 + 8 + 8 + 8
)

var errVersion = errors.New("stream: a batch of a version that is not known here")

type head struct {
	publisher, number uint64
	base              int64
}

func appendHead(dst []byte, h head) []byte {
	dst = varint.AppendU64(append(dst, batchVersion), h.publisher)
	dst = varint.AppendU64(dst, h.number)
	return varint.AppendU64(dst, uint64(h.base)) //nolint:gosec // read back the same way
}

func readHead(b []byte) (h head, events []byte, err error) {
	switch {
	case len(b) < headLength:
		return head{}, nil, fmt.Errorf("%w: a batch of %d bytes", errEvent, len(b))
	case b[0] != batchVersion:
		return head{}, nil, errVersion
	}
	r := varint.Reader{Src: b[1:]}
	h = head{r.U64(), r.U64(), int64(r.U64())} //nolint:gosec // as it was written
	return h, r.Src, nil
}

// Services translates between a process's indexes of services and names that all processes share. Safe for concurrent
// use.
type Services struct {
	named []named
	index map[uint32]uint16
}

type named struct {
	name     uint32
	settings *verdict.Settings // nil: there are none with this index
}

// Service is one of the settings by which requests are judged.
type Service struct {
	Key      string // the same in all processes
	Settings *verdict.Settings
}

// NewServices returns the translation of a configuration. Two keys with one name are an error.
func NewServices(of []Service) (*Services, error) {
	t := &Services{index: map[uint32]uint16{}}
	for _, s := range of {
		i, name := s.Settings.Index, uint32(request.Hash([]byte(s.Key))) //nolint:gosec // half of the hash will do
		if other, known := t.index[name]; known && other != i {
			return nil, fmt.Errorf("stream: the names of two services have one hash, %s is one of them: rename it",
				s.Key)
		}
		for len(t.named) <= int(i) {
			t.named = append(t.named, named{})
		}
		t.named[i], t.index[name] = named{name, s.Settings}, i
	}
	return t, nil
}

// name returns the name and the settings of an index; false without.
func (t *Services) name(index uint16) (uint32, *verdict.Settings, bool) {
	if t == nil || int(index) >= len(t.named) || t.named[index].settings == nil {
		return 0, nil, false
	}
	return t.named[index].name, t.named[index].settings, true
}

func (t *Services) of(name uint32) (uint16, bool) {
	if t == nil {
		return 0, false
	}
	i, ok := t.index[name]
	return i, ok
}

// since returns how long ago a base was, by this machine's clock.
func since(base int64, now time.Time) time.Duration {
	return max(now.Sub(time.UnixMicro(base)), 0)
}
