# Antirobot: everything that a developer or an operator types. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO    := go
BIN   := .bin
TOOLS := $(BIN)/tools.built
# Of packages and images. All files in them have the time of the last commit.
VERSION     := $(shell sed -n 's/^const release = "\(.*\)"/\1/p' cmd/version.go)
EPOCH       ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
# What an upgrade comes from: the last tag before this commit, or else the commit a hundred ago.
PREVIOUS    ?= $(shell git describe --abbrev=0 --tags HEAD~1 2>/dev/null || git rev-list --max-count=1 --skip=100 HEAD 2>/dev/null)
HOSTARCH    := $(shell $(GO) env GOARCH)
ARCH        ?= $(HOSTARCH)
IMAGE_ARCHS ?= amd64 arm64

.PHONY: help run build test test-all fmt vet lint unit e2e fuzz bench agents faults cross screens deps tools js tidy packages image check-packages clean FORCE

help: ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 24
run: ## the gateway, a demo site and an embedded store; prints the address to open
	@tools/progress.sh -o antirobot .
	@./antirobot demo
build: ## build ./antirobot
	@CGO_ENABLED=0 $(GO) build -trimpath -o antirobot .

test: ## everything: format, vet, lint, unit and race tests, end to end; says what it skipped
	@tools/summary.sh $(MAKE) --no-print-directory fmt vet lint unit e2e
test-all: $(TOOLS) ## what make test leaves out: all tests without the race detector, each benchmark once, the simulator's
	@tools/summary.sh tools/unit.sh plain

fmt: $(TOOLS) ## check the formatting (gofumpt) and go.mod
	@out=$$($(BIN)/gofumpt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted, run $(BIN)/gofumpt -w" $$out; exit 1; }
	@$(GO) mod tidy -diff && $(GO) -C sim mod tidy -diff
vet: ## go vet
	@$(GO) vet ./... && $(GO) -C sim vet ./...
lint: $(TOOLS) ## golangci-lint with the linters of .golangci.yml
	@$(BIN)/golangci-lint run ./...
unit: $(TOOLS) ## unit and architecture tests, with the race detector where goroutines run
	@tools/summary.sh tools/unit.sh
e2e: $(TOOLS) $(BIN)/envoy ## the real binary with real browsers, proxies and clients
	@CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/antirobot .
	@ANTIROBOT_BIN=$(CURDIR)/$(BIN)/antirobot tools/summary.sh $(GO) test -count=1 -parallel 5 -timeout 40m ./e2e/...
fuzz: ## every fuzz target for FUZZTIME (10s) each
	@tools/fuzz.sh
cross: ## go vet for other systems and processors
	@for s in darwin/arm64 freebsd/amd64 linux/arm64; do echo "vet $$s"; CGO_ENABLED=0 GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) vet ./...; done

bench: build ## the figures of docs/performance.md, each beside its reference; make bench-NAME runs tools/bench-NAME.sh
	@tools/bench.sh
bench-%: build
	@tools/$@.sh
agents: build ## how many robots in real browsers are found, by tool and manner (tools/agents.sh)
	@tools/agents.sh
faults: build ## cut, pause, fill, flush and slow down what two gateways share, under load (docs/scaling.md)
	@tools/faults.sh
screens: build ## write a picture of every page, in every look and language, to screens/
	@SCREENS=$(CURDIR)/screens $(GO) test -count=1 -run 'TestScreens|TestLanguagesFit|TestPicturesOfTheDocs' ./e2e

deps: ## install the servers, browsers and clients that tests use (Debian: needs root)
	@tools/deps.sh
tools: $(TOOLS) $(BIN)/envoy ## build the programs in Go that tests use, into .bin
$(TOOLS): tools/go.mod tools/go.sum
	@mkdir -p $(BIN) && $(GO) build -modfile=tools/go.mod -o $(BIN)/ tool && touch $@
$(BIN)/envoy: $(wildcard tools/envoy/*.go tools/envoy/interop/*.go) tools/envoy/go.mod tools/envoy/go.sum
	@mkdir -p $(BIN) && cd tools/envoy && $(GO) build -o ../../$(BIN)/ . ./interop && touch ../../$@
js: $(TOOLS) ## build antirobot.js, its types, the console's script and its texts, all of which are committed
	@tools/js.sh
tidy: ## go mod tidy, here and in tools
	@$(GO) mod tidy && $(GO) -C sim mod tidy && $(GO) -C tools mod tidy

packages: $(BIN)/release dist/linux-$(ARCH)/antirobot ## a deb and an rpm for ARCH (amd64) in dist/
	@$(BIN)/release packages -version $(VERSION) -epoch $(EPOCH) -arch $(ARCH) -binary dist/linux-$(ARCH)/antirobot -tool dist/linux-$(HOSTARCH)/antirobot
image: $(BIN)/release $(IMAGE_ARCHS:%=dist/linux-%/antirobot) ## an OCI image for IMAGE_ARCHS (amd64 arm64) in dist/: a layout, and archives for docker load
	@$(BIN)/release image -version $(VERSION) -epoch $(EPOCH) -tool dist/linux-$(HOSTARCH)/antirobot $(foreach a,$(IMAGE_ARCHS),-binary $(a)=dist/linux-$(a)/antirobot)
check-packages: dist/linux-$(HOSTARCH)/antirobot dist/linux-arm64/antirobot ## deb, rpm, images and the Helm chart tried; PREVIOUS and this version over one Redis (needs root)
	@tools/check-packages.sh $(PREVIOUS) $(HOSTARCH)
dist/linux-%/antirobot: FORCE
	@GOOS=linux GOARCH=$* CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o $@ .
$(BIN)/release: $(wildcard tools/release/*.go) tools/release/go.mod
	@mkdir -p $(BIN) && cd tools/release && $(GO) build -o ../../$(BIN)/release .
clean: ## remove what the build and the tests made
	@rm -rf antirobot $(BIN) dist screens
