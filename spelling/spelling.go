// Package spelling suggests the name that a misspelt word probably means.
package spelling

import "strings"

// maxWord is the longest name, in bytes, that is compared with others.
const maxWord = 64

// Nearest returns the name with the smallest edit distance from word, at most one plus one for every four letters,
// ignoring case; ties go to the longest common prefix. It returns "" if none is near, or if word is one of names.
func Nearest(word string, names []string) string {
	if len(word) > maxWord {
		return ""
	}
	lower := strings.ToLower(word)
	best, alike, at := 1+len(word)/4, 0, ""
	for _, name := range names {
		if name == word {
			return ""
		}
		n := strings.ToLower(name)
		d, same := slips(lower, n, best), beginsAlike(lower, n)
		if d < best || d == best && (at == "" || same > alike) {
			best, alike, at = d, same, name
		}
	}
	return at
}

// slips is the optimal string alignment distance of a and b. Above most it may be any greater number.
func slips(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most || len(b) > 2*maxWord {
		return most + 1
	}
	var rooms [3][2*maxWord + 1]int
	before, last, row := rooms[0][:len(b)+1], rooms[1][:len(b)+1], rooms[2][:len(b)+1]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// beginsAlike is how many bytes two words have in common at their beginning.
func beginsAlike(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
