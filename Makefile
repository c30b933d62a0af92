# Two commands matter: `make demo` does the main job, `make test` passes the tests.
# Each installs what it needs on a fresh Debian 12 that has Rust (rustup or 1.95+), as root or with sudo.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
SEEDS ?= 0..2000

.PHONY: all demo test bench sim lint install deps clean

all: deps
	$(CARGO) build --release --locked

## Two hosts, a cable, EMP beside TCP, under loss: a table and emp-demo/report.svg. Under 40 s after the build.
demo: all
	target/release/emp demo

## Everything that can be checked here, in under 20 minutes on two cores.
test: deps lint
	$(CARGO) test --workspace --locked

lint: deps
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

## The figures that EMP holds itself to, against the bare link and TCP in the same run.
bench: all
	target/release/emp bench bars

## More seeds of the simulator than the tests run: make sim SEEDS=0..100000
sim: all
	target/release/emp sim --seeds $(SEEDS)

install: all
	install -Dm755 target/release/emp $(DESTDIR)$(PREFIX)/bin/emp
	install -Dm755 target/release/libemp_fi.so $(DESTDIR)$(PREFIX)/lib/libfabric/libemp-fi.so
	install -Dm644 README.md $(DESTDIR)$(PREFIX)/share/doc/emp/README.md
	install -Dm644 SPEC.md $(DESTDIR)$(PREFIX)/share/doc/emp/SPEC.md

## A linker and libc headers for Rust, and `ip` for the labs of namespaces.
deps:
	@tools/install-deps

clean:
	$(CARGO) clean
