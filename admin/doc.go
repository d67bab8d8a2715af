// Package admin serves the private listener: metrics, health, profiles and the API by which operators look into the
// gateway and change its state.
//
// Invariants:
//  1. /api and /debug/pprof require the bearer token, which is compared in constant time. The message
//     firewall at /api/xml/ and /api/json/ does without: its partners have keys, or the listener is on loopback.
//  2. A request that a browser sends on behalf of some page is refused before it is read: any Origin, a cross-site
//     Sec-Fetch-Site, a Host that is neither an address, localhost nor a configured name (DNS rebinding), a body that
//     is not application/json (messages may call theirs as they like). The API knows no cookies. Pages below /console/
//     take forms of their own origin, and check more themselves.
//  3. Bodies, pages of a list, connections and the time of everything have bounds.
//  4. An error names the problem, the field and the remedy.
//  5. Tokens, passes and cookies are never logged.
package admin
