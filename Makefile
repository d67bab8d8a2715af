# Antirobot: everything that a developer or an operator types. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN   := .bin
GO    := go
# In libraries nothing is inlined beside the race detector: it sees as much, and they are compiled and linked in less time. Go's own and
# ours, in which the tests spend theirs, are as ever.
RACE  ?= -race "-gcflags=all=-l -dwarf=false" -gcflags=std=-dwarf=false "-gcflags=antirobot/...=-dwarf=false"
# What go test would vet of each package, make lint looks at: its govet is what go vet says.
TESTED := -vet=off
# With its benchmarks, each once, by the same binary.
ONCE   := -exec "'$(CURDIR)/tools/once.sh'"
# With the race detector: Pebble's compression in Go, as in what is released, so that no C is left but Go's own, and Go links it by itself.
INSIDE := -tags pebblegozstd -ldflags=-linkmode=internal
LONGEST := antirobot/captcha antirobot/store/redisstore antirobot/verdict/processor
# Of what is tested without it, what computes for minutes and waits for nothing, besides what tools/norace.sh finds by itself.
DAYS := antirobot/cmd antirobot/traffic antirobot/verdict/counter antirobot/verdict/processor
# Where this clone lies stays out of what is compiled: another clone of the same sources finds it all in Go's cache.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath)
FOR_TESTS := $(shell tools/tmpdir.sh)
PLATFORMS := darwin/arm64 freebsd/amd64 linux/arm64
# What failed is run once more by itself, and named: a test that fails twice fails the run, one that passed then is listed
# as such and is to be mended. More than a few failures, or a data race, are no accident: nothing is run again.
TESTS := $(BIN)/gotestsum --format pkgname --format-hide-empty-pkg --hide-summary=skipped --rerun-fails=1 --rerun-fails-max-failures=6 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race
# What e2e tries is linked as what is released, without what only debuggers read.
TRIED := $(GO) build -ldflags "-s -w" -o $(BIN)/antirobot .
# Everything is compiled as what is released, without cgo: Go links that by itself, in less time than with C's linker. Only the race
# detector has to have it.
test fmt compile vet cross lint arch strangers unit days alloc race detector e2e beside niced: export CGO_ENABLED := 0
# What tests write, and what is linked for them, lies in memory where there is room.
test arch strangers unit days alloc race detector e2e beside niced: export TMPDIR := $(FOR_TESTS)
# What is released: the tag, or the time of the last commit with its hash; all files in it have that time.
VERSION     ?= $(shell git describe --exact-match --tags 2>/dev/null | sed 's/^v//' | grep . || TZ=UTC git log -1 --format=0.0.0+%cd.g%h --date=format-local:%Y%m%d%H%M%S 2>/dev/null || echo 0.0.0)
# What an upgrade comes from: the last tag before this commit, or else the commit a hundred ago.
PREVIOUS    ?= $(shell git describe --abbrev=0 --tags HEAD~1 2>/dev/null || git rev-list --max-count=1 --skip=100 HEAD 2>/dev/null)
EPOCH       ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
HOSTARCH    := $(shell $(GO) env GOARCH)
ARCH        ?= $(HOSTARCH)
IMAGE_ARCHS ?= amd64 arm64
STAMP := $(shell git describe --always --dirty 2>/dev/null)

.PHONY: help run build test fmt compile vet cross cross-build lint arch strangers unit days alloc race fuzz e2e bench bench-detection bench-strangers bench-economy bench-factors bench-journal bench-stream bench-kvrocks beside niced detector agents faults deps screens js clean tidy packages image check-packages

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

run: ## the gateway, a demo site and an embedded store; prints the address to open
	@echo "building antirobot: on a fresh clone this fetches and compiles its libraries, which takes some minutes"
	@$(MAKE) --no-print-directory build BUILDFLAGS=-v
	@echo "built; starting the demo"
	@./antirobot demo

build: ## build ./antirobot
	@$(GO) build $(BUILDFLAGS) -ldflags "-X antirobot/cmd.stamp=$(STAMP)" -o antirobot .

# Once it is all compiled, simulated days fill the gaps that the other steps leave, from whichever waits or has one thing to do.
test: fmt compile $(BIN)/esbuild $(BIN)/gotestsum ## everything: format, vet, lint, architecture, unit and race tests, end to end
	@MAKE='$(MAKE)' tools/gaps.sh days cross lint arch strangers detector beside
	@echo "all tests passed"

fmt: $(BIN)/gofumpt ## check the formatting (gofumpt)
	@out=$$($(BIN)/gofumpt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not formatted, run: $(BIN)/gofumpt -w ."; echo "$$out"; exit 1; fi
	@$(GO) mod tidy -diff

compile: ## all packages and their tests, once for all that looks at them or runs them
	@$(GO) list -export -deps -test ./... >/dev/null

vet: ## go vet; make lint says the same
	@$(GO) vet ./...

# The tests of e2e wait more than they work: what only computes, and waits for nothing, fills the gaps without taking their turn.
beside:
	@$(TRIED) # what both need is compiled once
	@$(MAKE) --no-print-directory -j2 e2e niced

niced:
	@nice -n 19 $(MAKE) --no-print-directory alloc

cross: $(BIN)/crosscheck ## what go vet says for the other systems and processors, tests included, without compiling (seconds)
	@$(BIN)/crosscheck $(PLATFORMS)

cross-build: ## the binary for the other systems and processors, in dist/ (minutes; no cgo, so that no foreign compiler is needed)
	@for s in $(PLATFORMS); do GOOS=$${s%/*} GOARCH=$${s#*/} CGO_ENABLED=0 $(GO) build -ldflags "-X antirobot/cmd.stamp=$(STAMP)" -o dist/antirobot-$${s/\//-} . || exit 1; done

# It has room for garbage: a quarter of its processor time would go for collecting it earlier.
lint: $(BIN)/golangci-lint ## golangci-lint with the linters of .golangci.yml, go vet's among them
	@GOGC=$${GOGC:-400} GOMEMLIMIT=$${GOMEMLIMIT:-3GiB} $(BIN)/golangci-lint run ./...

arch: ## the tests of the root: who may import whom, sizes, exports, docs
	@$(GO) test $(TESTED) -count=1 .

strangers: ## vet and test what make bench-strangers measures with: a module of its own
	@cd tools/strangers && $(GO) vet ./... && $(GO) test $(TESTED) -count=1 -shuffle=on ./...

unit: $(BIN)/esbuild ## unit tests, shuffled, without the race detector
	@$(GO) test -shuffle=on $$($(GO) list ./... | grep -v /e2e)

days: $(BIN)/esbuild $(BIN)/gotestsum ## what is tested without the race detector and only computes: whole simulated days, what nothing runs beside
	@$(TESTS) --packages="$(DAYS)" -- $(TESTED) $(ONCE) -timeout 2h -shuffle=on -run "$$(tools/norace.sh names)"
	@$(TESTS) --packages="$$(tools/norace.sh alone)" -- $(TESTED) $(ONCE) -timeout 2h -shuffle=on

alloc: $(BIN)/esbuild $(BIN)/gotestsum ## what else is tested without the race detector: allocations; and every benchmark, once
	@$(TESTS) --packages="$$(tools/norace.sh packages | grep -vxFf <(printf '%s\n' $(DAYS)))" -- $(TESTED) $(ONCE) -timeout 2h -shuffle=on -run "$$(tools/norace.sh names)"
	@$(GO) test $(TESTED) $(ONCE) -run '^$$' $$(tools/norace.sh benchmarks) >/dev/null

race: days alloc detector ## unit tests: those that the race detector leaves out, then all others with it

# Some wait for servers, so more packages at once than there are cores; the longest first. The tests of the root are make arch's alone.
detector: $(BIN)/esbuild $(BIN)/gotestsum
	@CGO_ENABLED=1 $(TESTS) --packages="$(LONGEST) $$($(GO) list ./... | grep -vE '^antirobot$$|/e2e' | grep -vxFf <(printf '%s\n' $(LONGEST); tools/norace.sh alone) | tr '\n' ' ')" -- $(TESTED) $(RACE) $(INSIDE) -p 4 -timeout 20m -shuffle=on

e2e: $(BIN)/esbuild $(BIN)/h2spec $(BIN)/pebble $(BIN)/envoy $(BIN)/interop $(BIN)/gotestsum ## the real binary with a real browser, proxies and clients
	@$(TRIED)
	@ANTIROBOT_BIN=$(CURDIR)/$(BIN)/antirobot $(TESTS) --packages="./e2e/..." -- $(TESTED) -count=1 -parallel 5 -timeout 25m

packages: $(BIN)/release dist/linux-$(ARCH)/antirobot ## a deb and an rpm for ARCH (amd64) in dist/
	@$(BIN)/release packages -version $(VERSION) -epoch $(EPOCH) -arch $(ARCH) -binary dist/linux-$(ARCH)/antirobot -tool dist/linux-$(HOSTARCH)/antirobot

image: $(BIN)/release $(IMAGE_ARCHS:%=dist/linux-%/antirobot) ## an OCI image from nothing for IMAGE_ARCHS (amd64 arm64) in dist/: a layout, and archives for docker load
	@$(BIN)/release image -version $(VERSION) -epoch $(EPOCH) -tool dist/linux-$(HOSTARCH)/antirobot $(foreach a,$(IMAGE_ARCHS),-binary $(a)=dist/linux-$(a)/antirobot)

check-packages: dist/linux-$(HOSTARCH)/antirobot dist/linux-arm64/antirobot dist/previous/antirobot ## deb, rpm and images tried in namespaces of their own (arm64 by qemu), the Helm chart linted and rendered, PREVIOUS and this version over one Redis (minutes; needs root and Debian's rpm and qemu-user-static)
	@command -v qemu-aarch64-static >/dev/null || echo "SKIPPED for want of qemu-aarch64-static: the image for arm64 is not run; apt-get install qemu-user-static" >&2
	@cd tools/release && ANTIROBOT_BIN=$(CURDIR)/dist/linux-$(HOSTARCH)/antirobot ANTIROBOT_ARM64=$(CURDIR)/dist/linux-arm64/antirobot ANTIROBOT_PREVIOUS=$(CURDIR)/dist/previous/antirobot $(GO) test -count=1 -timeout 30m ./...

dist/previous/antirobot: FORCE
	@rm -rf dist/previous && mkdir -p dist/previous/src && git archive $(PREVIOUS) | tar -x -C dist/previous/src
	@cd dist/previous/src && $(GO) build -buildvcs=false -o ../antirobot . && cd .. && rm -rf src

dist/linux-%/antirobot: FORCE
	@GOOS=linux GOARCH=$* CGO_ENABLED=0 $(GO) build -buildvcs=false -ldflags "-s -w -X antirobot/cmd.stamp=$(VERSION)" -o $@ .

FORCE:

$(BIN)/release: $(wildcard tools/release/*.go) tools/release/go.mod
	@mkdir -p $(BIN) && cd tools/release && $(GO) build -o ../../$(BIN)/release .

fuzz: ## every fuzz target for FUZZTIME (10s) each
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
		echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $${FUZZTIME:-10s} $$p; done; done

bench: build ## the figures of docs/performance.md, each beside its reference
	@tools/bench.sh

bench-detection: build ## who of made-up people and robots is told apart, and after how many requests (docs/measurements.md)
	@./antirobot traffic
	@./antirobot traffic --auc --length 12h

bench-strangers: build ## who of the people and robots that a stranger to this program made up is told apart: SEEDS (1 2), VERBOSE=1 by sort, too (tools/strangers)
	@cd tools/strangers && $(GO) run . bench -antirobot $(CURDIR)/antirobot -seeds "$${SEEDS:-1 2}" $${VERBOSE:+-v}

bench-economy: build ## how much of a shop robots of each make get in a day, and what that costs people (docs/harvest.md)
	@./antirobot traffic --economy

bench-factors: build ## what each factor is like among made-up people and robots (docs/factors.md)
	@mkdir -p $(BIN) && ./antirobot traffic --factors $(BIN)/factors.csv --length 12h >/dev/null
	@python3 tools/rates.py $(BIN)/factors.csv >verdict/processor/testdata/rates.tsv && rm $(BIN)/factors.csv
	@$(GO) test ./verdict/processor -run TestFactorsDoc -update

bench-journal: ## a look-up by number and a filter over the last hour, in a journal of ENTRIES (25 million: takes gigabytes in TMPDIR)
	@$(GO) test ./journal -run '^$$' -bench BenchmarkJournal -benchtime 20x -timeout 2h -entries $${ENTRIES:-25000000}

agents: build ## how many robots in real browsers are found within AGENT_PAGES (30), by tool and manner, and what a silent check shows them: AGENT_TOOLS (all), AGENT_MANNERS (all), AGENT_ROUNDS (1), AGENT_AT_ONCE (4) (30 minutes)
	@tools/deps.sh agents
	@AGENT_PAGES=$${AGENT_PAGES:-30} ANTIROBOT_BIN=$(CURDIR)/antirobot $(GO) test -tags agents ./e2e -count=1 -run "TestAgents(AtTheCheck|InBrowsers)" -v -timeout 3h | grep -vE '^=== |^ *--- PASS'

faults: build ## cut, pause, fill, flush and slow down what two gateways share, under load (docs/scaling.md)
	@ANTIROBOT_FAULTS=1 ANTIROBOT_BIN=$(CURDIR)/antirobot $(GO) test ./e2e -count=1 -run 'TestFaults|TestRollingRestart' -v -timeout 20m | grep -E 'faults_test|^ *---|FAIL|ok'

bench-stream: ## what an event costs on its way from a gateway to a processor, and what a successor reads once more (docs/adr/0036)
	@$(GO) test ./stream -run '^$$' -bench 'Offer|Reference|Through' -benchtime 1500000x
	@$(GO) test ./stream -run '^$$' -bench Replay -benchtime 500000x

bench-kvrocks: ## counts in three copies of Kvrocks (KVROCKS=path of the program): updates, bytes, a node lost (docs/adr/0043)
	@tools/kvrocks.sh

screens: build ## write a picture of every page, in every look and language, to screens/
	@SCREENS=$(CURDIR)/screens $(GO) test -count=1 -run 'TestScreens|TestLanguagesFit|TestPicturesOfTheDocs' ./e2e

deps: ## install what the end-to-end tests need (Debian: needs root)
	@tools/deps.sh

js: $(BIN)/esbuild ## build antirobot.js, its types, the console's script and its texts, all of which are committed
	@$(GO) test -count=1 ./templates -run 'TestScriptTexts' -update >/dev/null
	@$(GO) test -count=1 ./templates -run 'TestScript(IsFresh|Types)' -update >/dev/null
	@$(BIN)/esbuild console/js/console.ts --format=iife --bundle --minify --target=es2022 --charset=utf8 --legal-comments=none >console/static/console.js
	@$(GO) test -count=1 ./templates -run TestScriptIsSmall -v | grep bytes

tidy: ## go mod tidy, here and in tools
	@$(GO) mod tidy && cd tools && $(GO) mod tidy

$(BIN)/gofumpt $(BIN)/golangci-lint: tools/go.mod tools/go.sum
	@mkdir -p $(BIN) && $(GO) build -modfile=tools/go.mod -o $(BIN)/gofumpt mvdan.cc/gofumpt \
		&& $(GO) build -modfile=tools/go.mod -o $(BIN)/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $(BIN)/gofumpt $(BIN)/golangci-lint

$(BIN)/crosscheck: tools/go.mod tools/go.sum tools/crosscheck/main.go
	@mkdir -p $(BIN) && cd tools && $(GO) build -o ../$(BIN)/crosscheck ./crosscheck

$(BIN)/envoy: $(wildcard tools/envoy/*.go) tools/envoy/go.mod tools/envoy/go.sum
	@mkdir -p $(BIN) && cd tools/envoy && $(GO) build -o ../../$(BIN)/envoy .

$(BIN)/interop: $(wildcard tools/envoy/interop/*.go) tools/envoy/go.mod tools/envoy/go.sum
	@mkdir -p $(BIN) && cd tools/envoy && $(GO) build -o ../../$(BIN)/interop ./interop

$(BIN)/h2spec: tools/go.mod tools/go.sum
	@mkdir -p $(BIN) && $(GO) build -modfile=tools/go.mod -o $(BIN)/h2spec github.com/summerwind/h2spec/cmd/h2spec
	@touch $(BIN)/h2spec

$(BIN)/pebble: tools/go.mod tools/go.sum
	@mkdir -p $(BIN) && $(GO) build -modfile=tools/go.mod -o $(BIN)/pebble github.com/letsencrypt/pebble/v2/cmd/pebble
	@touch $(BIN)/pebble

$(BIN)/gotestsum: tools/go.mod tools/go.sum
	@mkdir -p $(BIN) && $(GO) build -modfile=tools/go.mod -o $(BIN)/gotestsum gotest.tools/gotestsum
	@touch $(BIN)/gotestsum

$(BIN)/esbuild: tools/go.mod tools/go.sum
	@mkdir -p $(BIN) && $(GO) build -modfile=tools/go.mod -o $(BIN)/esbuild github.com/evanw/esbuild/cmd/esbuild
	@touch $(BIN)/esbuild

clean: ## remove what the build and the tests made
	@rm -rf antirobot $(BIN) dist screens
