# Go and make are all that `make run` needs; `make test` wants a C compiler for
# the race detector, `make integration` kcat, a JDK, Maven, Python and Node.js.
GO ?= go
BIN := bin/klamm
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
LISTEN ?= localhost:9092
DATA ?=
FUZZTIME ?= 20s
SEEDS ?= 10000
SCENARIO ?= stated

.PHONY: all build run test sim integration nemesis mixed franz stops bench lint fuzz clean help

all: build

build: ## static binary in bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/klamm

run: build ## a development node on localhost:9092, LISTEN and DATA change that
	./$(BIN) server --dev --listen $(LISTEN) $(if $(DATA),--data $(DATA))

# Without a C compiler the race detector can not be built; the tests still are
# worth running.
CC_FOUND := $(shell command -v $${CC:-gcc} 2>/dev/null || command -v cc 2>/dev/null || command -v clang 2>/dev/null)
RACE := $(if $(CC_FOUND),-race)

test: ## unit and datadriven tests, with the race detector
	@$(if $(CC_FOUND),:,echo "no C compiler found: testing without the race detector (install gcc to have it)")
	$(if $(CC_FOUND),CGO_ENABLED=1) $(GO) test $(RACE) -timeout 5m ./...
	$(if $(CC_FOUND),$(GO) test ./integration/sim)

sim: ## 10,000 seeds of the simulated cluster, and the faults that they must catch
	$(GO) test ./integration/sim -run 'TestSim|TestMutations' -timeout 3h -args -seeds $(SEEDS) -mutations

integration: build ## real processes, real clients, kill -9
	KLAMM=$(CURDIR)/$(BIN) $(GO) test -tags integration -count 1 -timeout 20m -p 1 ./integration/...

nemesis: build ## clusters broken under load, eight ways; SCENARIO=all or numbers for others
	KLAMM=$(CURDIR)/$(BIN) $(GO) test -tags integration -count 1 -v -timeout 2h ./integration/nemesis -scenario $(SCENARIO)

mixed: build ## clusters of klamm's and Apache Kafka's nodes, with a quorum of Kafka's
	KLAMM=$(CURDIR)/$(BIN) $(GO) test -tags integration -count 1 -v -timeout 30m ./integration/mixed -controllers 3

franz: build ## franz-go's own tests on three nodes that are restarted
	KLAMM=$(CURDIR)/$(BIN) $(GO) test -tags integration -count 1 -v -timeout 30m ./integration/rolling -run TestFranzSuite -suite

stops: build ## nodes with a thousand partitions are stopped in order under load
	KLAMM=$(CURDIR)/$(BIN) $(GO) test -tags integration -count 1 -v -timeout 30m ./integration/rolling -run TestStopsOfManyPartitions -partitions 1000

bench: ## benchmarks of the hot paths
	$(GO) test -run '^$$' -bench . -benchmem ./...

lint: ## format, vet, staticcheck
	@unformatted=$$($(GO) tool gofumpt -l .); if [ -n "$$unformatted" ]; then echo "not formatted (go tool gofumpt -w .):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags integration ./integration/...
	$(GO) tool staticcheck ./...
	$(GO) tool staticcheck -tags integration ./integration/...

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
	    echo "== $$target in $$(dirname $$file)"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$(dirname $$file); \
	  done; \
	done

clean: ## no binary, no cached test results
	rm -rf bin
	$(GO) clean -testcache

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## /\1: /p' $(MAKEFILE_LIST)
