# The two commands: `make demo` and `make test`. Both install what is missing first.
.PHONY: demo test check fmt-check test-long build bench clean

demo:
	@scripts/setup.sh demo
	@cargo build --release --quiet --bins
	@target/release/wireloom-demo

# One profile, and one build, for the tests and what they drive: nothing is compiled twice, and all tests
# check the profile's assertions. (A build of the binaries alone may give libraries other features.) Most
# tests wait for some of their time, for servers, clocks and compilers: so there are three at once for each
# processor. Programs are compiled without optimisation, but for tests that measure: with all of it the C
# compiler takes half of the time. `make test-long` runs services and packets optimised, too.
test: export RUST_TEST_THREADS ?= $(shell expr 3 \* $$(nproc))
test: export WIRELOOM_TESTS_OPT ?= 0
test:
	@scripts/setup.sh demo
	@echo 'scripts/setup.sh test, beside the build'; scripts/setup.sh test & setup=$$!; \
	cargo build --profile checks --workspace --bins --tests; built=$$?; \
	wait $$setup && exit $$built
	cargo test --profile checks --workspace --tests --no-fail-fast

# Form: rustfmt, the formatter of Wireloom, clippy. The width of prose and the links of pages are tests.
check: fmt-check
	cargo clippy --profile checks --workspace --all-targets -- -D warnings

fmt-check:
	cargo fmt --all --check
	cargo build --profile checks --workspace --bins --tests
	target/checks/wireloom fmt --check $(wildcard apps/*.loom examples/*.loom std/*.loom std/elements/*/*.loom bench/*/*.loom bench/*/apps/*.loom tests/*/*.loom)

# What takes too long for every change: random runs, and ten thousand generated programs by the interpreter and compiled (an hour or more; in
# parts, since what was loaded is never unloaded). Some of the programs optimised as for users.
PARTS = 1..60 61..120 121..180 181..240 241..300 301..360 361..420
# Of twelve programs each, that run on all devices: ten thousand. The interpreter runs them in two processes, too.
HOOK_PARTS = $(PARTS) 421..480 481..540 541..600 601..660 661..720 721..780 781..840
test-long:
	@scripts/setup.sh test
	scripts/aarch64.sh
	cargo test --profile checks -p wireloom-tests --test packets -- packet_processors::
	cargo test --profile checks -p wireloom-tests --test packets --test services
	cargo test --profile checks -p wireloom-runtime --lib -- --ignored a_million_messages
	WIRELOOM_MESSAGES=1000000 cargo test --profile checks -p wireloom-tests --test services -- none_goes_to_the_wrong_peer no_session_has_two_clients
	LARGE=512 cargo test --profile checks -p wireloom-tests --test services -- large_values::
	WIRELOOM_FUZZ_SECONDS=20 cargo test --profile checks -p wireloom-tests --test programs -- fuzz::
	WIRELOOM_SEEDS=1..40 cargo test --profile checks -p wireloom-tests --test programs -- differential::
	WIRELOOM_SEEDS=1..6000 cargo test --profile checks -p wireloom-tests --test programs -- rebuild::
	WIRELOOM_SEEDS=1..2000 cargo test --profile checks -p wireloom-tests --test programs -- conversation_storm::
	WIRELOOM_SEEDS=1..4 cargo test --profile checks -p wireloom-tests --test programs -- grammars:: std_units:: compiler_fuzz::undamaged
	WIRELOOM_OPT=0 WIRELOOM_SEEDS=2..4 cargo test --profile checks -p wireloom-tests --test programs -- renamed::
	for part in $(PARTS); do WIRELOOM_OPT=0 WIRELOOM_SEEDS=$$part cargo test --profile checks -p wireloom-tests --test programs -- whole_programs:: || exit 1; done
	for part in $(HOOK_PARTS); do WIRELOOM_OPT=0 WIRELOOM_SEEDS=$$part cargo test --profile checks -p wireloom-tests --test packets -- xdp::whole:: || exit 1; done
	for hook in far apart; do WIRELOOM_HOOK=$$hook cargo test --profile checks -p wireloom-tests --test packets -- xdp:: || exit 1; done
	WIRELOOM_SEEDS=1..5 cargo test --profile checks -p wireloom-tests --test programs -- whole_rules::
	WIRELOOM_SEEDS=1..1 cargo test --profile checks -p wireloom-tests --test packets -- xdp::races::changes_under_traffic
	WIRELOOM_SEEDS=1..40 cargo test --profile checks -p wireloom-tests --test packets -- generated_ bytes_by_live_share xdp::apps::l4_balancer
	WIRELOOM_OPT=2 WIRELOOM_SEEDS=421..424 cargo test --profile checks -p wireloom-tests --test programs -- whole_programs::

build:
	@scripts/setup.sh demo
	cargo build --release --bins

bench:
	bench/run.sh full

clean:
	cargo clean
