// Command interop is a service of gRPC and a client of it, both of grpc-go with its own interoperability tests, between which a
// gateway stands:
//
//	interop serve ADDRESS [CERTIFICATE KEY]
//	interop ask ADDRESS [tls]
//
// It shares a module with Envoy's double, so that grpc-go is built once.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1], insecure.NewCredentials())
	case len(args) == 4 && args[0] == "serve":
		c, err := credentials.NewServerTLSFromFile(args[2], args[3])
		if err != nil {
			return err
		}
		return serve(args[1], c)
	case len(args) == 2 && args[0] == "ask":
		return ask(args[1], insecure.NewCredentials())
	case len(args) == 3 && args[0] == "ask" && args[2] == "tls":
		return ask(args[1], credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})) //nolint:gosec // self-signed
	}
	return errors.New("usage: interop serve ADDRESS [CERTIFICATE KEY], or interop ask ADDRESS [tls]")
}

func serve(address string, c credentials.TransportCredentials) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.Creds(c))
	testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
	return s.Serve(ln)
}

// maxTime bounds all questions together. They take 20 seconds where 40 programs share two processors.
const maxTime = 5 * time.Minute

// ask plays every case, and prints its name when it has passed; the first that fails ends the program.
func ask(address string, c credentials.TransportCredentials) error {
	ctx, cancel := context.WithTimeout(context.Background(), maxTime)
	defer cancel()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := testgrpc.NewTestServiceClient(conn)
	for _, test := range []struct {
		name string
		play func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)
	}{
		{"empty_unary", interop.DoEmptyUnaryCall},
		{"large_unary", interop.DoLargeUnaryCall},
		{"client_streaming", interop.DoClientStreaming},
		{"server_streaming", interop.DoServerStreaming},
		{"ping_pong", interop.DoPingPong},
		{"empty_stream", interop.DoEmptyStream},
		{"timeout_on_sleeping_server", interop.DoTimeoutOnSleepingServer},
		{"cancel_after_begin", interop.DoCancelAfterBegin},
		{"cancel_after_first_response", interop.DoCancelAfterFirstResponse},
		{"custom_metadata", interop.DoCustomMetadata},
		{"status_code_and_message", interop.DoStatusCodeAndMessage},
		{"special_status_message", interop.DoSpecialStatusMessage},
		{"unimplemented_method", func(ctx context.Context, _ testgrpc.TestServiceClient, _ ...grpc.CallOption) {
			interop.DoUnimplementedMethod(ctx, conn)
		}},
	} {
		test.play(ctx, client)
		fmt.Println(test.name)
	}
	return nil
}
