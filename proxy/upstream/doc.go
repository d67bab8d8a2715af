// Package upstream keeps the connections to the addresses of one service and lends them to requests.
//
// Invariants:
//  1. A connection is lent to one request at a time. Between Get and Release or Discard it belongs to the caller,
//     before and after to the Group; its buffers R and W exist only while it is lent.
//  2. A connection is lent again only if its last answer was complete (Release) and nothing has come since: bytes that
//     nobody asked for, or an end, drop it. An answer without a question never reaches the next client.
//  3. An address that fails is passed over for a time, but a Group never refuses without having tried: with all
//     addresses down it dials the one that has been down longest.
//  4. Names are resolved when a connection is dialled, and connections have a greatest age, so a moved name is followed.
//  5. Lending a pooled connection again allocates nothing and takes no lock that all requests share.
package upstream
