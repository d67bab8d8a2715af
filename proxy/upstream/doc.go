// Package upstream keeps the connections to one service's addresses, and checks them out to requests.
//
// Invariants:
// 1. A connection serves one request at a time. The caller owns it between Get and Release or Discard.
// 2. It is reused only after a complete answer and if nothing has arrived since, so that no answer reaches another
// client.
// 3. A failing address is avoided for a time; if all are down, the one that is down longest is dialled.
// 4. Names are resolved at dial time, and connections have a maximum age.
// 5. Reuse allocates nothing and takes no shared lock.
package upstream
