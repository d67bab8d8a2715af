// Package upstream keeps the connections to the addresses of one service and lends them to requests.
//
// Invariants:
//  1. A connection is lent to one request at a time. Between Get and Release or Discard it belongs to the caller,
//     before and after that to the Group; its buffers R and W exist only while it is lent.
//  2. A connection is lent again only if its last answer was complete (Release) and nothing has arrived since: it is
//     dropped after unrequested bytes or an end. An answer without a request never reaches the next client.
//  3. A failing address is avoided for a time, but a Group never refuses without having tried: if all addresses are
//     down, it dials the one that has been down longest.
//  4. Names are resolved when a connection is dialled, and connections have a maximum age, so a moved name is followed.
//  5. Lending a pooled connection again allocates nothing and takes no lock that all requests share.
package upstream
