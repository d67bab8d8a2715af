// Package console serves the web pages of the private listener: who came, why they were stopped, and how to set it
// right.
//
// Invariants:
//  1. A page shows and changes nothing but what the API of package admin answers to the same token: rights are checked
//     there alone.
//
// 2. A session is a random cookie (HttpOnly, SameSite=Strict) over an entry in memory; a restart ends it. Every form
// carries
//
//	   the session's own token, and tries to sign in are limited by address and in total.
//	3. Every page is HTML that works without a script. There is no inline script and no inline style, nothing of third
//	   parties is loaded, and everything that visitors send is escaped by html/template.
package console
