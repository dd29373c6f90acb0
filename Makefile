# make test    everything that a change must pass, after installing what the tests need
# make build   the one static binary, bin/stanchion
# make bench   the Go benchmarks
# make fuzz    every fuzz target for FUZZ_TIME
# make fmt     gofmt, in place

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

GO ?= go

# One set of flags for everything that is tested: vet, staticcheck, the tests and the binary that the end-to-end tests
# build find each other's compiled packages in Go's cache, so that a fresh machine compiles once.
# SQLite itself, which is C made into Go and touches memory of its own alone, is left out of the race detector: it would be five
# times slower, and three nodes on two cores with it.
TEST_GOFLAGS := -race -buildvcs=false -gcflags=m.../sqlite/lib=-race=false
# TEST_TIMEOUT bounds one package's tests, TEST_TIME_MAX all of them.
TEST_TIMEOUT  ?= 15m
TEST_TIME_MAX ?= 30m
# TEST_PACKAGES narrows a run: make unit TEST_PACKAGES=./lockcore/...
TEST_PACKAGES ?= ./...

FUZZ_TIME ?= 30s
BENCH     ?= .

# Debian packages that tests need besides Go, gcc, make and git: network namespaces and packet filters for the tests that
# cut nodes off, databases for the guard, Python for its client. Browser tests will add chromium by DEBIAN_PACKAGES_BROWSER; there are none yet.
DEBIAN_PACKAGES         ?= iproute2 iptables postgresql mariadb-server python3
DEBIAN_PACKAGES_BROWSER ?=

.PHONY: test check unit packages fmt-check vet staticcheck tidy-check build bench fuzz fmt clean

# One after the other, whatever -j says: they share two cores.
test:
	@$(MAKE) --no-print-directory packages
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory unit

check:
	@$(MAKE) --no-print-directory fmt-check
	@$(MAKE) --no-print-directory vet
	@$(MAKE) --no-print-directory staticcheck
	@$(MAKE) --no-print-directory tidy-check

# Installs what is missing, and only where there is apt-get and the right to use it.
packages:
	@missing=()
	for p in $(DEBIAN_PACKAGES) $(DEBIAN_PACKAGES_BROWSER); do
		[[ "$$(dpkg-query -W -f='$${Status}' "$$p" 2>/dev/null || true)" == *' installed' ]] || missing+=("$$p")
	done
	if (( $${#missing[@]} == 0 )); then exit 0; fi
	if ! command -v apt-get >/dev/null; then
		echo "make: no apt-get here; the tests need: $${missing[*]}" >&2
		exit 0
	fi
	as_root=()
	if (( EUID != 0 )); then
		if ! sudo -n true 2>/dev/null; then
			echo "make: not root; install what the tests need: $${missing[*]}" >&2
			exit 0
		fi
		as_root=(sudo -n)
	fi
	echo "make: installing $${missing[*]}"
	"$${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
	"$${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null

fmt-check:
	@unformatted="$$(gofmt -l .)"
	test -z "$$unformatted" || { echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; } >&2

vet staticcheck unit: export GOFLAGS := $(TEST_GOFLAGS)

vet:
	$(GO) vet $(TEST_PACKAGES)

# The tool itself is built without the race detector; the packages that it looks at are those of the tests.
staticcheck:
	@tool="$$(GOFLAGS= $(GO) tool -n staticcheck)"
	echo staticcheck $(TEST_PACKAGES)
	"$$tool" $(TEST_PACKAGES)

tidy-check:
	$(GO) mod tidy -diff

# One package after the other: those that run clusters of whole nodes want the machine for themselves. What they are made of
# has been compiled by then.
unit:
	timeout --kill-after=30s $(TEST_TIME_MAX) $(GO) test -p 1 -count=1 -vet=off -timeout=$(TEST_TIMEOUT) $(TEST_PACKAGES)

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bin/stanchion ./cmd/stanchion

bench:
	$(GO) test -run='^$$' -bench='$(BENCH)' -benchmem $(TEST_PACKAGES)

fuzz:
	@packages="$$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(TEST_PACKAGES))"
	for package in $$packages; do
		listed="$$($(GO) test -list='^Fuzz' "$$package")"
		for target in $$(sed -n '/^Fuzz/p' <<<"$$listed"); do
			echo "$$package $$target"
			$(GO) test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZ_TIME) "$$package"
		done
	done

fmt:
	gofmt -w .

clean:
	rm -rf bin

.ONESHELL:
