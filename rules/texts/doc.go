// Package texts finds words, hosts and links in texts, and looks them up in lists.
//
// Invariants:
//  1. Entries and texts are normalised by the same functions: words of the skeleton, hosts in lower-case ASCII.
//  2. A lookup takes constant time and allocates nothing once warm.
//  3. Links are read without invisible characters, but letters are not folded: in an address each counts.
package texts
