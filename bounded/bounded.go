// Package bounded holds state of a bounded size about things that clients can make up any number of: records by key (Table),
// values that hold until a time (Expiring), rates (Rate), counts by window (Counts) and names that are added once (Once).
//
// Invariants:
//  1. Memory is bounded at construction, whatever clients do.
//  2. A full table forgets or refuses; which of the two, and in whose favour, each type says.
//  3. No lock is shared by all keys, and no operation on an existing key allocates.
package bounded
