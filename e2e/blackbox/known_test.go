package blackbox

// nginxFails lists what nginx 1.22 fails although it is configured with care, by what lies behind it.
var nginxFails = map[string]bool{
	// takes 1xx for the answer, and says 100 itself
	`1xx/102 is not the answer`:                      true,
	`1xx/100 of the service reaches the client`:      true, // now and then
	`1xx/103 for HEAD`:                               true,
	`1xx/103 is not the answer`:                      true,
	`1xx/103 with a length has no body`:              true,
	`1xx/199 is not the answer`:                      true,
	`1xx/1xx never reaches HTTP/1.0`:                 true,
	`1xx/Expect from HTTP/1.0 brings no 100`:         true,
	`1xx/a client that does not wait for 100`:        true,
	`1xx/hop-by-hop fields of 103`:                   true,
	`1xx/several 1xx`:                                true,
	`1xx/the proxy does not say 100 for the service`: true,
	`1xx/unasked 100 is not the answer`:              true,
	// sends no Host, and ends a cut answer cleanly
	`HTTP/1.0/cut chunked answer does not look whole`: true,
	`HTTP/1.0/without Host`:                           true,
	// takes a half-close for a departure
	`aborts/half-close after the request still gets the answer`: true,
	// lenient about chunk lines
	`chunks/NUL in extension`:       true,
	`chunks/data shorter than size`: true,
	`chunks/letters after space`:    true,
	// drops names that are no tokens, and bare CRs, instead of refusing
	`framing/TE bare CR after`: true,
	`framing/TE long s`:        true,
	// drops odd names
	`headers/name of all token characters`: true,
	// does not read Connection as a list of names
	`hop-by-hop/Connection of 1000 names`:           true,
	`hop-by-hop/Upgrade without Connection`:         true,
	`hop-by-hop/answer: Proxy-Connection`:           true,
	`hop-by-hop/answer: Upgrade offer`:              true,
	`hop-by-hop/answer: nominated field`:            true,
	`hop-by-hop/empty elements in Connection`:       true,
	`hop-by-hop/nominated before Connection`:        true,
	`hop-by-hop/nominated field`:                    true,
	`hop-by-hop/nominated in a list`:                true,
	`hop-by-hop/nominated in the second Connection`: true,
	// lenient about Host
	`host/IPv6 with rest`:                  true,
	`host/IPv6 without end`:                true,
	`host/absolute form HTTP/1.0`:          true,
	`host/absolute form with another port`: true,
	`host/angle brackets`:                  true,
	`host/backslash`:                       true,
	`host/fragment`:                        true,
	`host/high bytes`:                      true,
	`host/port is a word`:                  true,
	`host/port negative`:                   true,
	`host/query`:                           true,
	`host/quotes`:                          true,
	`host/two ports`:                       true,
	`host/user`:                            true,
	// speaks HTTP/0.9
	`keep-alive/good, then bad`: true,
	// drops names that are no tokens instead of refusing
	`lines/CR CR LF`:            true,
	`lines/at in name`:          true,
	`lines/backslash in name`:   true,
	`lines/brace in name`:       true,
	`lines/bracket in name`:     true,
	`lines/comma in name`:       true,
	`lines/equals in name`:      true,
	`lines/high byte in name`:   true,
	`lines/no colon`:            true,
	`lines/parenthesis in name`: true,
	`lines/quote in name`:       true,
	`lines/semicolon in name`:   true,
	`lines/slash in name`:       true,
	// decodes the path, and refuses what leaves the root
	`path//%`:                true,
	`path//%2E%2E%2Fa`:       true,
	`path//%2e%2e/a`:         true,
	`path//%zz`:              true,
	`path//..`:               true,
	`path//../../etc/passwd`: true,
	`path//a%00b`:            true,
	// takes a half-close for a departure
	`pipelining/then half-close`: true,
	// lenient about white space and versions
	`request line/HTTP/0.9`:                             true,
	`request line/OPTIONS asterisk reaches the service`: true,
	`request line/absolute ftp`:                         true,
	`request line/absolute other host`:                  true,
	`request line/no version`:                           true,
	`request line/trailing space`:                       true,
	`request line/two spaces before target`:             true,
	`request line/two spaces before version`:            true,
	`request line/version 1.01`:                         true,
	`request line/version 1.10`:                         true,
	`request line/version 1.2`:                          true,
	`request line/version 1.9`:                          true,
	// repeats idempotent requests with a body, and after an answer began
	`retry/GET with body is not sent twice`:      true,
	`retry/PUT with body is not sent twice`:      true,
	`retry/no second try after the answer began`: true,
	// does not read trailers, and passes look-alikes on
	`smuggling/CL underscore look-alike`:   true,
	`smuggling/TE.TE with CL, underscore`:  true,
	`smuggling/request in trailer section`: true,
	// passes look-alikes on
	`spoofing/X-Forwarded_For`: true,
	`spoofing/X_Forwarded_For`: true,
	`spoofing/X_Real_IP`:       true,
	// believes services: no checks of versions, lengths and names
	`strictness/CR in the reason`:                 true,
	`strictness/HTML without a head`:              true,
	`strictness/HTTP/2`:                           true,
	`strictness/HTTP/2.0`:                         true,
	`strictness/ICY`:                              true,
	`strictness/chunked not last`:                 true,
	`strictness/chunked with a word before`:       true,
	`strictness/endless 1xx`:                      true,
	`strictness/garbage`:                          true,
	`strictness/high byte in a name`:              true,
	`strictness/length list differing`:            true,
	`strictness/length of letters`:                true,
	`strictness/length overflow`:                  true,
	`strictness/length with plus`:                 true,
	`strictness/negative length`:                  true,
	`strictness/negative status`:                  true,
	`strictness/no version`:                       true,
	`strictness/only 100 and then the end`:        true,
	`strictness/status of four digits`:            true,
	`strictness/status of letters`:                true,
	`strictness/status of two digits`:             true,
	`strictness/two Transfer-Encodings differing`: true,
	`strictness/two lengths`:                      true,
	// drops trailers
	`trailers/of a request`: true,
	`trailers/of an answer`: true,
	// passes any 101 on
	`upgrade/101 that nobody asked for`:      true,
	`upgrade/101 to a POST`:                  true,
	`upgrade/101 to another protocol`:        true,
	`upgrade/101 to h2c`:                     true,
	`upgrade/101 without Upgrade`:            true,
	`upgrade/half-close towards the service`: true,
	`upgrade/websocket from HTTP/1.0`:        true,
	`upgrade/websocket without nomination`:   true,
}

// nginxFailsHTTP2 is the same over HTTP/2.
var nginxFailsHTTP2 = map[string]bool{
	// leaves fields of a connection out instead of refusing them
	`http2/refused: connection: close`:             true,
	`http2/refused: connection: x-a`:               true,
	`http2/refused: keep-alive: timeout=5`:         true,
	`http2/refused: proxy-connection: keep-alive`:  true,
	`http2/refused: te: gzip`:                      true,
	`http2/refused: te: trailers, deflate`:         true,
	`http2/refused: transfer-encoding: chunked`:    true,
	`http2/refused: upgrade: websocket`:            true,
	`http2/refused: a byte above 0x7f in a name`:   true,
	`http2/refused: a pseudo field behind a field`: true,
	// refuses what is fine
	`http2/* of OPTIONS`:              true,
	`http2/a head in pieces`:          true,
	`http2/the authority is the host`: true,
	// has no small enough limit
	`http2/too large a head`: true,
	// passes no trailers on, and no interim answers
	`http2/a client that waits for 100`:                 true,
	`http2/an interim answer is not the answer`:         true,
	`http2/trailers of an answer`:                       true,
	`http2/trailers: they reach the service, or nobody`: true,
	// has no RFC 8441
	`http2/CONNECT: a WebSocket`: true,
}

// nginxFailsRaw is the same over HTTP/2 with a service that sends bytes of its own.
var nginxFailsRaw = map[string]bool{
	// believes services
	`http2 raw/bad answer: a signed length`:                   true,
	`http2 raw/bad answer: a switch that nobody asked for`:    true,
	`http2 raw/bad answer: an unknown coding`:                 true,
	`http2 raw/bad answer: another protocol`:                  true,
	`http2 raw/bad answer: no colon`:                          true,
	`http2 raw/bad answer: two lengths`:                       true,
	`http2 raw/fields of the service's connection stay there`: true,
	// takes an interim answer for the answer
	`http2 raw/100 that nobody waits for is no answer`:         true,
	`http2 raw/103 reaches the client before the answer`:       true,
	`http2 raw/a client that waits for 100`:                    true,
	`http2 raw/an answer behind an interim answer is nobody's`: true,
	// passes no trailers on, and takes some for an error
	`http2 raw/a length with trailers behind it`:    true,
	`http2 raw/chunks with extensions and trailers`: true,
	`http2 raw/trailers without a body`:             true,
	// passes on what it does not know
	`http2 raw/refused: a path with a fragment`:              true,
	`http2 raw/refused: an authority with a backslash`:       true,
	`http2 raw/refused: an authority with a bracket`:         true,
	`http2 raw/refused: an authority with a fragment`:        true,
	`http2 raw/refused: an authority with a password`:        true,
	`http2 raw/refused: an authority with a port of letters`: true,
	`http2 raw/refused: an authority with a query`:           true,
	`http2 raw/refused: an authority with an escape`:         true,
	`http2 raw/refused: an authority with half of IPv6`:      true,
	`http2 raw/refused: an authority with two ports`:         true,
	`http2 raw/who is who`:                                   true,
	// others
	`http2 raw/a POST without a body says so`:                              true,
	`http2 raw/a head that can't be read: a table that changes at the end`: true,
	`http2 raw/one Host, nothing of HTTP/2, nothing of a connection`:       true, // refuses a Host beside the authority
}
