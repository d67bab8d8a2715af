// Package spoe answers HAProxy's Stream Processing Offload Engine (SPOP 2.0, doc/SPOE.txt): HAProxy sends the head of
// each request in a frame, and gets variables. The answers are those of a check of style verdict with X-Forwarded
// fields.
package spoe
