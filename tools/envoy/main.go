// Command envoy plays Envoy with a file such as deploy/envoy/envoy-grpc.yaml, for machines that have none: it asks over gRPC with
// grpc-go and Envoy's own message types, and does with an answer what Envoy's documentation of ext_authz says. What it does not play
// is everything else: one listener, plain HTTP, the routes and clusters that the file has.
//
// It is no part of the gateway, and a module of its own so that its libraries are not either.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: envoy FILE")
	}
	log.Fatal(run(os.Args[1]))
}

func run(name string) error {
	cfg, err := load(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	conn, err := grpc.NewClient(cfg.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	srv := &http.Server{Addr: cfg.listen, Handler: &front{cfg, auth.NewAuthorizationClient(conn)}, ReadHeaderTimeout: 10 * time.Second}
	return srv.ListenAndServe()
}

// front is the listener with its filters.
type front struct {
	cfg  *config
	auth auth.AuthorizationClient
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	enter(r)
	if f.cfg.own.MatchString(r.URL.Path) {
		f.forward(f.cfg.gateway, nil).ServeHTTP(w, r)
		return
	}
	q, err := f.question(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.cfg.timeout)
	defer cancel()
	a, err := f.auth.Check(ctx, q)
	switch {
	case err != nil && f.cfg.open:
		f.forward(f.cfg.service, nil).ServeHTTP(w, r)
	case err != nil:
		w.WriteHeader(http.StatusForbidden)
	case a.GetStatus().GetCode() != 0:
		deny(w, a.GetDeniedResponse())
	default:
		f.pass(w, r, a.GetOkResponse())
	}
}

// pass sends a request on, changed as the answer says.
func (f *front) pass(w http.ResponseWriter, r *http.Request, ok *auth.OkHttpResponse) {
	for _, o := range ok.GetHeaders() {
		set(r.Header, o)
	}
	for _, name := range ok.GetHeadersToRemove() {
		r.Header.Del(name)
	}
	f.forward(f.cfg.service, func(answer *http.Response) {
		for _, o := range ok.GetResponseHeadersToAdd() {
			set(answer.Header, o)
		}
	}).ServeHTTP(w, r)
}

// deny answers a visitor as the gateway says.
func deny(w http.ResponseWriter, d *auth.DeniedHttpResponse) {
	status := http.StatusForbidden
	if code := d.GetStatus().GetCode(); code > 0 {
		status = int(code)
	}
	for _, o := range d.GetHeaders() {
		set(w.Header(), o)
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/plain")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, d.GetBody())
}

// enter does what the connection manager does with use_remote_address.
func enter(r *http.Request) {
	addr := addressOf(r)
	hops := addr
	if before := r.Header.Get("X-Forwarded-For"); before != "" {
		hops = before + "," + addr
	}
	r.Header.Set("X-Forwarded-For", hops)
	r.Header.Set("X-Forwarded-Proto", "http")
	r.Header.Set("X-Request-Id", "a4d8c8b0-0f6c-9d1c-8a3e-000000000000")
	r.Header.Set("X-Envoy-External-Address", addr)
}

var errFile = errors.New("is not what this program understands")
