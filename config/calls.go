package config

import (
	"net/url"
	"slices"
	"strings"
)

// Calls returns the hosts that the gateway may call, sorted: those of its services, of the store, of lists and
// crawlers' ranges, of webhooks (of messages and of alarms) and second opinions, of the receiver of traces, of who
// signs people in to the console, and of the certificate authority. It calls no others, but for the fleet's gateways,
// whose addresses are in the store, and where these hosts send it: a list's redirect, an authority or a provider may
// name further ones. Addresses are looked up by the machine's resolver.
func (c *Config) Calls() (hosts []string) {
	urls := c.Lists.Calls()
	for i := range c.Resolved {
		urls = append(urls, c.Resolved[i].Upstream.URLs...)
		for k := range c.Resolved[i].Messages.Routes {
			urls = append(urls, c.Resolved[i].Messages.Routes[k].Webhook())
		}
	}
	for _, o := range c.Message.SecondOpinions {
		urls = append(urls, o.Calls()...)
	}
	for i := range c.Alarms.Webhooks {
		if address, err := c.Alarms.Webhooks[i].Address(); err == nil {
			urls = append(urls, address)
		}
	}
	if c.Traces.Endpoint != "" {
		urls = append(urls, c.Traces.Endpoint)
	}
	for _, address := range c.Store.Servers() {
		urls = append(urls, strings.Split(address, ",")...)
	}
	urls = append(urls, c.Admin.OIDC.Issuer)
	if len(c.TLS.ACME.Hosts) > 0 {
		urls = append(urls, c.TLS.ACME.Directory)
	}
	for _, text := range urls {
		if !strings.Contains(text, "://") {
			text = "//" + text
		}
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			hosts = append(hosts, u.Host) // without what comes before an @
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
