// Package cbb is the block base: it keeps lists of networks, subjects and request patterns, refreshes them from files
// and URLs, and answers for every request which of them apply.
//
// Each entry has a flag (block: 403, ban: captcha, white: never challenged), a reason, and sometimes an end. The
// precedence of several matching entries is not decided here: Lookup fills a Match, and package verdict orders it.
//
// Invariants:
//  1. Lookup never waits, never allocates once warm, and takes no lock that all requests share. It reads an immutable
//     snapshot that is built in the background and swapped by one pointer, and the run-time entries beside it.
//  2. All networks of all lists and flags sit in one table. Each piece of it carries what every network around it says,
//     so one search yields a white /32 and the blocked /8 around it.
//  3. An error never empties a list: the last good copy stays, in memory and on disk, until a better one is parsed
//     whole. A list that looks wrong (garbage, suddenly empty, wider than any list should be) is an error.
//  4. A user agent alone never makes a request white: a crawler is believed by its published ranges, or by reverse DNS
//     with the forward check. While that check runs a bounded number of requests may pass, marked Provisional.
//  5. Paths are matched as they came and in their normal form: a block or ban matches if either does, a white pattern
//     only if both do.
//  6. A run-time entry is durable before it takes effect, and its end is exact.
package cbb
