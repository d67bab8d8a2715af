// Package extauthz answers Envoy over gRPC (envoy.service.auth.v3.Authorization) with the answers of the HTTP check.
//
// Invariants:
// 1. Only Envoy's description of a request reaches the check, without pseudo fields and fields of the connection.
// 2. A request with its whole body is judged as inline; without it, as over HTTP.
// 3. A call that can't be judged fails, so that failure_mode_allow decides.
// 4. Connections, streams and messages are bounded.
package extauthz
