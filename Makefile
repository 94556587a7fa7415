# make           build bin/headpond
# make test      unit tests
# make check     everything that the gate runs: lint, tests, and the stages of mk/stages, one after the other
# make serve     start a broker on 127.0.0.1:9092
# make bench     benchmarks, each as a ratio to what the machine can do; prints a table
# make prove     the long proofs (hundred crashes, 10 GiB backlog …); prints what docs/proof/ keeps

# A build needs no version control, so that a source archive or a foreign checkout builds too.
export GOFLAGS ?= -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: build test check serve bench prove docker clean

build:
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/headpond ./cmd/headpond

test:
	go run ./internal/gate/run unit

check:
	go run ./internal/gate/run check

serve:
	go run ./cmd/headpond serve

bench:
	go run ./internal/gate/run bench

prove:
	go run ./internal/gate/run prove

docker:
	docker build --build-arg VERSION=$(VERSION) -t headpond .

clean:
	rm -rf bin
