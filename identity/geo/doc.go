// Package geo says in which country an address is and to which autonomous system it belongs, by files that the
// operator has put there: MMDB databases (GeoLite2, DB-IP, IPinfo and others) or the table of iptoasn.com. None comes
// with the gateway, and none is fetched.
//
// Invariants:
//  1. Place reads what is in memory: it does not wait, takes no lock, and allocates nothing once warm.
//  2. A file is read as a whole before it is used, and never mapped, so that it may be overwritten at any time. One
//     that is missing or damaged changes nothing: the last good copy goes on, and without one nothing is known.
package geo
