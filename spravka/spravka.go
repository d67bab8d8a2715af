// Package spravka holds the key ring and makes every seal of the gateway: the pass (spravka), the i cookie, captcha
// keys, signed return URLs, sealed requests.
//
// Invariants:
//  1. Every seal names its purpose, and a seal of one purpose never opens as another.
//  2. Every seal carries its own expiry, chosen by us.
//  3. Rotation adds a key; tokens of older keys open until those keys are removed.
package spravka
