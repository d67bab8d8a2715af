// Package foreign turns what other programs know of robots into rules for requests: policies of Anubis, and robots.txt.
//
// What can't be said in rules is left out and listed, never guessed: a rule that is left out lets a request go on to the next one.
package foreign
