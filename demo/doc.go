// Package demo is the small site that `antirobot demo` puts behind the gateway: pages, a guest-book with what the rules
// say about it, an AJAX list, a WebSocket, an event stream, pictures, an XML search, and a page on which the visitor
// plays robot.
//
// Invariants:
//  1. It imports nothing of the gateway and talks to it as any service and any operator would: over HTTP.
//  2. The browser never sees the token of the admin API. The play page only bans or lists the visitor's own address as
//     the gateway names it, the visitor's own cookie, or an address reserved for documentation; each ban and entry ends
//     by itself after two minutes.
//  3. All state is bounded, and nothing is loaded from anywhere else.
package demo
