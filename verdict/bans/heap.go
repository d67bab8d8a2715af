package bans

// The heap: s.heap[0] ends first. Each record knows its position in it.

func (s *shard) less(a, b uint32) bool { return s.at(s.heap[a]).until < s.at(s.heap[b]).until }

func (s *shard) swap(a, b uint32) {
	s.heap[a], s.heap[b] = s.heap[b], s.heap[a]
	s.at(s.heap[a]).heapAt, s.at(s.heap[b]).heapAt = a, b
}

func (s *shard) up(i uint32) {
	for i > 0 && s.less(i, (i-1)/2) {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (s *shard) fix(i uint32) {
	s.up(i)
	for n := uint32(len(s.heap)); ; {
		c := 2*i + 1
		if c >= n {
			return
		}
		if c+1 < n && s.less(c+1, c) {
			c++
		}
		if !s.less(c, i) {
			return
		}
		s.swap(i, c)
		i = c
	}
}
