// Package journal remembers what was decided, for days and across restarts: every request that was not simply human, a
// sample of the others, what happened at the captcha, bans, and what operators did. It also keeps figures for plots.
//
// Invariants:
//  1. Note never waits and never allocates. It takes a lock that one request in sixteen shares, for as long as a copy takes.
//     What the disk or the writer can't take in time is shed and counted.
//  2. The oldest entries make room: for age, and for size on the disk.
//  3. No query of a URL, no cookie, no answer and no body is ever kept. After a time addresses are shortened or hashed.
//  4. What was written survives a kill or a power failure, the last second left out; operators' acts and bans at once.
//  5. An entry is found by its ID, by its subject, and by its time; everything else is a filter over entries in the order of
//     time, newest first, of which one call reads a bounded number.
package journal
