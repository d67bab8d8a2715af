package rules

// closest returns the candidate that word is probably a misspelling of, or ""; a candidate itself is no misspelling.
func closest(word string, candidates []string) string {
	limit := 1 + len(word)/4
	best, at := limit+1, ""
	for _, c := range candidates {
		if c == word {
			return ""
		}
		if d := distance(word, c, best); d < best {
			best, at = d, c
		}
	}
	return at
}

// distance is the Levenshtein distance of two ASCII words, where a swap of neighbours and a change of case cost one
// edit; it may stop early with any number ≥ limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || len(a) > 64 {
		return limit
	}
	if equalFold(a, b) {
		return min(1, limit)
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if lower(a[i-1]) == lower(b[j-1]) {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}

func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
