// Package cbb is the block base: it keeps lists of networks, subjects and request patterns, refreshes them from files
// and URLs, and answers for every request which of them apply.
//
// Each entry has a flag (block: 403, ban: captcha, white: never challenged), a reason, and sometimes an end. The
// precedence among several matching entries is not decided here: Lookup fills a Match, and package verdict orders it.
//
// Invariants:
//  1. Lookup never waits, never allocates once warm, and takes no lock that all requests share. It reads an immutable
//     snapshot, which is built in the background and swapped by one pointer, and the run-time entries beside it.
//  2. All networks of all lists and flags are in one table. Each piece of it carries the entries of all networks around
//     it, so one search yields a white /32 and the blocked /8 around it.
//  3. An error never empties a list: the last good copy stays, in memory and on disk, until a better one has been
//     parsed completely. A list that looks wrong (garbage, suddenly empty, wider than any list should be) is an error.
//  4. A user agent alone never makes a request white: a crawler is verified by its published ranges, or by reverse DNS
//     with the forward check. While that check runs, a bounded number of requests may pass, marked Provisional.
//  5. Paths are matched as received and in their normal form: a block or ban matches if either does, a white pattern
//     only if both do.
//  6. A run-time entry is durable before it takes effect, and its end is exact.
package cbb
