// Package queue keeps messages that a person has to decide on, with the requests that they came in, until they are
// delivered, refused, erased or too old.
//
// Invariants:
//  1. A message is durable in the store before its sender is told that it waits. What is kept is sealed with the ring's keys:
//     whoever reads the store reads no text and no cookie.
//  2. An approved message is delivered at least once. A crash between the delivery and its note may deliver it again; the
//     delivery names its ID, the same each time.
//  3. Once it is delivered or refused, the text and the request are gone, and a record without them is kept for a while.
//  4. Entries, their size, their age and those of one network are bounded. A full queue takes nothing, and says so.
//  5. Gateways that share a store share the queue: any of them decides, and one of them delivers.
package queue
