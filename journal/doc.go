// Package journal keeps decisions for days and across restarts: every request that was not simply human, a sample of
// the others, challenges, bans, and operators' actions. It also keeps figures for plots.
//
// Invariants:
//  1. Note never waits and never allocates. Notes that the writer can't take in time are dropped and counted.
//  2. The oldest entries make room, for age and for size on disk.
//  3. No query, cookie, answer or body is ever kept. Addresses are shortened or hashed after a time.
//  4. A crash loses the last second; operators' actions and bans are durable at once.
//  5. Entries are found by ID, subject and time; all else filters a bounded scan, newest first.
package journal
