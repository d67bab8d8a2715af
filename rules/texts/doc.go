// Package texts finds words, hosts and links in what people write, and looks them up in lists of texts.
//
// Invariants:
//  1. Entries of a list and the texts that are compared with it are brought into the same form by the same functions: words
//     are those of the skeleton, hosts are lower-case ASCII.
//  2. A look-up in a list takes the same time however long the list is, and allocates nothing once warm.
//  3. Links are read from the text without what can't be seen, but no letter is taken for another: in an address each counts.
package texts
