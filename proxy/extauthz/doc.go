// Package extauthz answers Envoy's question about a request over gRPC (envoy.service.auth.v3.Authorization), with the answers of the
// same check that balancers ask over HTTP.
//
// Invariants:
//  1. Only what Envoy says of a request reaches the check: pseudo fields, fields of the visitor's connection and those that Envoy
//     adds are left out.
//  2. A request that came with its whole body is judged as inline, messages and forms included; without it, as over HTTP.
//  3. What can't be judged is an error of the call, never an answer for the visitor: failure_mode_allow decides then.
//  4. What callers make the gateway keep is bounded: connections, streams, the length of a message and of all messages together.
package extauthz
