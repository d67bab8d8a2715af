// Package peers lets the gateways that share a store ask each other what only one of them remembers: its journal, its
// figures, the sessions in its memory.
//
// Rules:
// 1. Each gateway tells the others in the store where its private listener is, sealed with the ring that all of them
// have. Nothing
//
//	but such an address is ever asked: who can write to the store, but lacks the ring, sends nobody anywhere.
//
// 2. A question carries a seal of the ring that names who is asked and for what, and that holds for a minute. Whoever
// receives
//
//	   it can put that very question to that very gateway, and no other. It reads; there is nothing that it can change.
//	3. Where the listener speaks TLS, its certificate is the one that was told: no authority can vouch for another.
//	4. Nobody passes a question on. All are asked at once; who has not answered in time is named.
package peers
