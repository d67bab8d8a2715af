// Package blackbox holds a suite that puts a reverse proxy between raw TCP clients and a raw scripted service and checks
// only the bytes that come out on either side: framing, request smuggling, streaming, upgrades, aborts, poisoning.
//
// Rules of the suite:
//  1. A case knows nothing about the proxy under test. Where RFC 9110 and 9112 leave a choice, it accepts every safe one.
//  2. A must case protects people or data; a should case is about quality. Only must cases fail the test, unless strict.
//  3. The cases are verified against nginx: the suite lists by name what a well-configured nginx fails; any other
//     failure there is an error of the case.
//  4. Cases over HTTP/2 send frames of their own making; the service is net/http's, once over HTTP/1.1 and once over HTTP/2.
//     In "http2 raw" the service is the scripted one: what becomes of bytes in frames, and of frames in bytes.
//     The cases of "http2" hold over HTTP/3, by an interpreter between the two.
//
// Targets: the gateway's own transport in process, the gateway's binary (ANTIROBOT_BIN, or built from the module), nginx.
package blackbox
