# Two commands matter: `make demo` does the main job, `make test` passes the tests.
# Each installs what it needs on a fresh Debian 12 that has Rust (rustup or 1.95+), as root or with sudo.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
# Where the release build puts its programs.
BUILT ?= $(or $(CARGO_TARGET_DIR),target)/release
# Where the build that is tested puts them.
TESTED ?= $(or $(CARGO_TARGET_DIR),target)/debug
SEEDS ?= 0..2000

.PHONY: all book demo test requirements test-mpi run-mpi test-mpi-empd test-mpi-full test-mpi-endurance test-libfabric test-fabtests test-cards fuzz fuzz-wire fuzz-service mutants loom threads bench sim lint install install-built uninstall deb test-packages test-dissector deps browser tshark wasm deps-mpi deps-packages deps-cards clean

all: export EMP_COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
all: deps
	$(CARGO) build --release --locked

## Two hosts, a cable, EMP beside TCP, under loss: a table and emp-demo/report.svg. Under 40 s after the build.
demo: all
	$(BUILT)/emp demo

## Lint, loom, tests, two fuzz targets for 20 s each, 1,000 new seeds of the simulator and the same 200 of worlds with relays, a part of the MPI programs: under half an hour on two
## cores. What it leaves out: test-mpi-empd, test-mpi-full, test-mpi-endurance, test-libfabric, test-fabtests,
## test-cards, test-packages, test-dissector, fuzz-service, mutants.
#
# The libraries that MPI loads are built with the tests: a build of their own would have other features, and half a minute to two more.
# Tests at once. Half of their time they wait (for silence, for a node to be given up), so a processor each leaves both idle half of the time.
TEST_THREADS ?= $(shell echo $$(($$(nproc) * 3 / 2)))
test: requirements deps-mpi browser tshark lint loom fuzz-wire
	$(CARGO) build --workspace --lib --bins --tests --locked
	RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --locked
	$(TESTED)/emp sim --fresh 1000
	$(TESTED)/emp sim --relays --seeds 0..200
	$(MAKE) run-mpi MPI_TESTS="$(MPI_TESTS_QUICK)"

## EMP_REQUIRE=root,mpi,browser,wasm,tshark names what must be there: tests that are skipped for lack of it then fail.
requirements:
	@tools/require

## Those of the MPI tests that `make test` has time for; `make test-mpi` runs them all.
MPI_TESTS ?=
MPI_TESTS_QUICK = openmpi-netpipe openmpi-hpcc-plain openmpi-beyond-plain openmpi-many-plain openmpi-bench mpich-netpipe-plain mpich-netpipe-loss mpich-beyond-plain mpich-many-plain mpich-suite-plain mpich-suite-loss mpich-suite-user openmpi-suite-plain

## Unmodified MPI programs on EMP between two hosts of a lab: see tests/mpi/run.
test-mpi: deps-mpi
	$(CARGO) build -p emp-cli -p emp-empd -p emp-fi -p emp-mx -p emp-vmmc -p emp-vipl --locked
	$(MAKE) run-mpi

# What is built already.
run-mpi:
	tests/mpi/install $(TESTED)
	tests/mpi/run --built $(TESTED) $(MPI_TESTS)

# Names and beginnings: each has one at a loss too.
MPI_TESTS_SERVED = openmpi-netpipe-served openmpi-beyond-served openmpi-suite-served mpich-netpipe-served mpich-beyond-served mpich-suite-served \
	openmpi-netpipe-daemon openmpi-beyond-daemon openmpi-suite-daemon mpich-netpipe-daemon mpich-beyond-daemon mpich-suite-daemon

## Those of ranks without privilege whose frames the service empd carries, or whose engines it runs, clean and at 1 % loss.
test-mpi-empd:
	$(MAKE) test-mpi MPI_TESTS="$(MPI_TESTS_SERVED)"

## The same at 1 % loss too and with larger problems; left out are only parts of mpi4py's suite that docs/guide/mpi.md and tests/mpi/run
## name. A quarter of an hour.
test-mpi-full: deps-mpi
	$(CARGO) build -p emp-cli -p emp-empd -p emp-fi -p emp-mx -p emp-vmmc -p emp-vipl --locked
	tests/mpi/run --full --built $(TESTED)

## 16 ranks on two hosts under a mixed load, RUNS times for SECONDS each, MPICH and Open MPI in turn: half an
## hour as it stands. make test-mpi-endurance RUNS=4 SECONDS=10 is a try.
test-mpi-endurance: RUNS ?= 50
test-mpi-endurance: SECONDS ?= 30
test-mpi-endurance: deps-mpi
	$(CARGO) build -p emp-cli -p emp-empd -p emp-fi -p emp-mx -p emp-vmmc -p emp-vipl --locked
	tests/mpi/endurance --built $(TESTED) $(RUNS) $(SECONDS)

## The provider's own C programs on another libfabric than the system's: LIBFABRIC is the directory of its libfabric.so.1, whose
## headers are taken if they are beside it. A minute after the build.
test-libfabric: deps
	@[ -n "$(LIBFABRIC)" ] || { echo "make test-libfabric LIBFABRIC=DIR: the directory of libfabric.so.1" >&2; exit 2; }
	LIBFABRIC="$(abspath $(LIBFABRIC))" $(CARGO) test -p emp-fi --test conformance --locked

## libfabric's own tests, which no package has: FABTESTS is a tree of them that you have built (docs/guide/libfabric.md). For
## another libfabric than the system's, at a loss, or for a part: FABTESTS_ARGS="--libfabric DIR --loss 1 --set unit".
FABTESTS_ARGS ?=
test-fabtests: deps
	@[ -n "$(FABTESTS)" ] || { echo "make test-fabtests FABTESTS=DIR: the directory of fabtests, built" >&2; exit 2; }
	$(CARGO) build -p emp-cli -p emp-fi --locked
	tests/fabtests/run --tests $(FABTESTS) --built $(TESTED) $(FABTESTS_ARGS)

## Wireshark's dissector, by tshark: every field of every test vector, 10,000 mutated frames. Three minutes, most of it for mutants.
test-dissector: deps-packages
	tests/dissector/check.py $(DISSECTOR_ARGS)

## Two emulated machines with Debian's kernel, a cable and real cards' drivers; needs root. CARDS="--card e1000e --only udp" is
## a part of it. Some 10 minutes on two quiet cores; not part of `make test`.
test-cards: deps-cards
	$(CARGO) build -p emp-cli --locked
	tests/cards/run --built $(TESTED) $(CARDS)

## The fuzz targets for FUZZ_SECONDS each, from the committed seeds on: see fuzz/README.md.
FUZZ_SECONDS ?= 20
fuzz: fuzz-wire fuzz-service

## Of bytes from the wire.
fuzz-wire: deps
	fuzz/run parse -max_total_time=$(FUZZ_SECONDS) -max_len=300
	fuzz/run firmware -max_total_time=$(FUZZ_SECONDS) -max_len=2048 -len_control=0

## Of records from a client to the service: its build takes minutes, so it is no part of `make test`.
fuzz-service: deps
	fuzz/run service -max_total_time=$(FUZZ_SECONDS) -max_len=2048 -len_control=0

## Which changes of the frame formats and the engine no test notices, by cargo-mutants: all of the formats', of the engine's the part
## MUTANTS_SHARD; or what cargo-mutants' own options choose: make mutants MUTANTS="--file crates/firmware/src/send/window.rs". Lists
## how many were tried and which live. An hour and more; the whole engine (MUTANTS_SHARD=0/1) takes days.
MUTANTS_SHARD ?= 0/100
MUTANTS ?=
mutants: deps
	command -v cargo-mutants >/dev/null || $(CARGO) install cargo-mutants --locked
	tools/mutants $(dir $(BUILT))mutants $(MUTANTS_SHARD) $(MUTANTS)

## Every order of memory accesses that the rings allow, and the words between two threads: who runs a piece of work, and what is owed to a
## peer; by loom. Its own target directory, because it is another configuration of everything. About a minute after the build, to which link-time
## optimisation would add another.
loom: export RUSTFLAGS = --cfg loom
loom: export CARGO_PROFILE_RELEASE_LTO = off
loom: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS = 16
loom: deps
	$(CARGO) test --release --locked -p emp-rings --test shm_loom --test slots_loom --test pieces_loom --target-dir $(BUILT)/../loom
	$(CARGO) test --release --locked -p emp-firmware --lib --target-dir $(BUILT)/../loom -- orders

## What two threads of a board do to memory that both can reach, by Miri and ThreadSanitizer. Needs nightly Rust with the components miri and rust-src
## (rustup component add miri rust-src --toolchain nightly). Not part of `make test`: the standard library is built anew for it, which takes minutes.
SANITIZED ?= $(shell rustc -vV | sed -n 's/^host: //p')
threads: deps
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --locked -p emp-rings --lib --target-dir $(BUILT)/../miri -- slot_ring
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --locked -p emp-host --lib --target-dir $(BUILT)/../miri -- second:: placing::
	RUSTFLAGS=-Zsanitizer=thread $(CARGO) +nightly test -Zbuild-std --target $(SANITIZED) --locked -p emp-rings --lib --target-dir $(BUILT)/../tsan -- slot_ring
	RUSTFLAGS=-Zsanitizer=thread $(CARGO) +nightly test -Zbuild-std --target $(SANITIZED) --locked -p emp-firmware --test all --target-dir $(BUILT)/../tsan -- halves
	RUSTFLAGS=-Zsanitizer=thread $(CARGO) +nightly test -Zbuild-std --target $(SANITIZED) --locked -p emp-host --lib --target-dir $(BUILT)/../tsan -- second:: placing:: board
	RUSTFLAGS=-Zsanitizer=thread $(CARGO) +nightly test -Zbuild-std --target $(SANITIZED) --locked -p emp-host --test delivered --target-dir $(BUILT)/../tsan

lint: deps wasm
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@CARGO=$(CARGO) tools/check-portable
	@tools/check-spec
	@tools/check-floors
	@tools/check-book
	@tools/check-settings
	@tools/check-lineage
	@tests/vectors/make.py --check
	@! grep -rn "crate::bench" crates/cli/src/report crates/cli/src/measured
	$(CARGO) check --locked --manifest-path fuzz/Cargo.toml --target-dir $(BUILT)/../fuzz

## The figures that EMP holds itself to, against the bare link and TCP in the same run: under a minute after the build.
bench: all
	$(BUILT)/emp bench bars --lab

## The guide as one book, in target/book; needs mdBook (cargo install mdbook).
book:
	tools/check-book --build

## More seeds of the simulator than the tests run: make sim SEEDS=0..100000
sim: all
	$(BUILT)/emp sim --seeds $(SEEDS)

## The programs with manuals and completions, the service's units, the libfabric provider where each libfabric looks for it (as far as PREFIX permits), the MX,
## VMMC and VIPL libraries with their headers and tools, the documents.
install: all install-built

## The same with what is built already, in $(BUILT).
install-built:
	@tools/install-built $(BUILT) $(PREFIX) $(DESTDIR)

## Removes what `make install` with the same PREFIX has put there.
uninstall:
	@tools/uninstall $(PREFIX) $(DESTDIR)

## Debian packages, in target/packages: emp, empd, libemp-fi, libmyriexpress0, libvipl0, libvmmc0, those for development. Built with this
## user's cargo and its registry, in a copy of the sources. Some minutes.
deb: deps-packages
	tools/build-packages $(PACKAGES)

PACKAGES ?= $(dir $(BUILT))packages

## Of these packages: lintian, two builds compared, installing and purging, `emp demo` and an MPI program in a bare Debian 12; root.
## What debian/ needs is not what `make test` needs, so that does without. PACKAGES_TESTS="lintian purge" is a part of it.
PACKAGES_TESTS ?=
test-packages: deb
	tests/packages/run $(PACKAGES) $(PACKAGES_TESTS)

## A linker and libc headers for Rust, and `ip` for the labs of namespaces.
deps:
	@tools/install-deps

## Chromium, in which the tests look at the report of `emp bench netpipe`; without it they skip that.
browser:
	@tools/install-deps browser

## Wireshark without its windows, which runs the dissector; without it the tests of that are skipped. Half a minute.
tshark:
	@tools/install-deps tshark

## Rust's target without an operating system, for which the engine is built; without it that is skipped.
wasm:
	@tools/install-deps wasm

## And Open MPI with what is run on it, from Debian; MPICH comes into a Python environment of its own.
deps-mpi: deps
	@tools/install-deps mpi

## And what packages are built and looked at with.
deps-packages: deps
	@tools/install-deps packages

## And an emulator, with what is in its guests.
deps-cards: deps
	@tools/install-deps cards

clean:
	$(CARGO) clean
