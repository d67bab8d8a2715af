package main

import (
	"net/url"
	"os"
	"regexp"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// config is what of the file is played.
type config struct {
	listen           string
	grpc             string
	gateway, service *url.URL
	own              *regexp.Regexp // paths that are not asked about
	open             bool
	rawHeaders       bool
	maxBody          int64 // 0: bodies are not sent
	rawBody          bool
	timeout          time.Duration
	unasked          []string // fields that are not told in a question
	removed          []string // fields that are not sent on
	upgrades         []string // protocols that a request may change to
}

// node is a place in the file.
type node struct{ v any }

func (n node) at(path ...any) node {
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, _ := n.v.(map[string]any)
			n = node{m[k]}
		case int:
			l, _ := n.v.([]any)
			if k >= len(l) {
				return node{}
			}
			n = node{l[k]}
		}
	}
	return n
}

func (n node) text() string {
	s, _ := n.v.(string)
	return s
}

func (n node) yes() bool {
	b, _ := n.v.(bool)
	return b
}

func (n node) number() int {
	i, _ := n.v.(int)
	return i
}

// texts is the texts of a list, each at a path in its item.
func (n node) texts(path ...any) (all []string) {
	l, _ := n.v.([]any)
	for i := range l {
		all = append(all, n.at(i).at(path...).text())
	}
	return all
}

// socket is host:port of an address.
func (n node) socket() string {
	return n.at("address", "socket_address", "address").text() + ":" + strconv.Itoa(n.at("address", "socket_address", "port_value").number())
}

func load(name string) (*config, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	static := node{doc}.at("static_resources")
	hosts := map[string]string{}
	clusters, _ := static.at("clusters").v.([]any)
	for _, c := range clusters {
		n := node{c}
		hosts[n.at("name").text()] = n.at("load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint").socket()
	}
	hcm := static.at("listeners", 0, "filter_chains", 0, "filters", 0, "typed_config")
	filter := hcm.at("http_filters", 0, "typed_config")
	routes := hcm.at("route_config", "virtual_hosts", 0, "routes")
	own := routes.at(0, "match", "safe_regex", "regex").text()
	if !routes.at(0, "typed_per_filter_config", "envoy.filters.http.ext_authz", "disabled").yes() || !hcm.at("use_remote_address").yes() || own == "" {
		return nil, errFile
	}
	timeout, err := time.ParseDuration(filter.at("grpc_service", "timeout").text())
	if err != nil {
		return nil, err
	}
	pattern, err := regexp.Compile("^(?:" + own + ")$")
	if err != nil {
		return nil, err
	}
	body := filter.at("with_request_body")
	return &config{
		listen: static.at("listeners", 0).socket(), grpc: hosts[filter.at("grpc_service", "envoy_grpc", "cluster_name").text()],
		gateway: &url.URL{Scheme: "http", Host: hosts[routes.at(0, "route", "cluster").text()]},
		service: &url.URL{Scheme: "http", Host: hosts[routes.at(1, "route", "cluster").text()]},
		own:     pattern, open: filter.at("failure_mode_allow").yes(), rawHeaders: filter.at("encode_raw_headers").yes(),
		maxBody: int64(body.at("max_request_bytes").number()), rawBody: body.at("pack_as_bytes").yes(), timeout: timeout,
		unasked: filter.at("disallowed_headers", "patterns").texts("exact"), removed: hcm.at("route_config", "request_headers_to_remove").texts(),
		upgrades: hcm.at("upgrade_configs").texts("upgrade_type"),
	}, nil
}
