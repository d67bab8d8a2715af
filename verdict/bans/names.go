package bans

import (
	"sync"
	"sync/atomic"
)

// names assigns small numbers to the few texts that many records repeat; 0 is the empty text. It never forgets a text.
type names struct {
	mu   sync.Mutex
	byNo atomic.Pointer[[]string]
	no   map[string]uint16
}

const maxNames = 1 << 14

// number returns the number of a text, or 0 and false when there are too many.
func (n *names) number(s string) (uint16, bool) {
	if s == "" {
		return 0, true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, ok := n.no[s]; ok {
		return i, true
	}
	if n.no == nil {
		n.no = make(map[string]uint16)
	}
	if len(n.no) == maxNames {
		return 0, false
	}
	i := uint16(len(n.no) + 1)
	n.no[s] = i
	list := make([]string, 0, i)
	if old := n.byNo.Load(); old != nil {
		list = append(list, *old...)
	}
	list = append(list, s)
	n.byNo.Store(&list)
	return i, true
}

// known returns the number of a text if it has one.
func (n *names) known(s string) (uint16, bool) {
	if s == "" {
		return 0, true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	i, ok := n.no[s]
	return i, ok
}

// text returns the text of a number; it takes no lock.
func (n *names) text(i uint16) string {
	if i == 0 {
		return ""
	}
	return (*n.byNo.Load())[i-1]
}
