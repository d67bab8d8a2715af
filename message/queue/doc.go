// Package queue keeps messages that wait for a person, with their requests, until they are delivered, refused,
// erased or too old.
//
// Invariants:
//  1. A message is durable before its sender is told that it waits, and sealed: a reader of the store sees no text
//     and no cookie.
//  2. An approved message is delivered at least once, under the same ID each time.
//  3. Once it is delivered or refused, only a record without text and request is kept for a while.
//  4. Entries, their size, their age and those of one network are bounded. A full queue refuses.
//  5. Gateways that share a store share the queue: any of them decides, and one of them delivers.
package queue
