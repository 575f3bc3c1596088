# The two commands: `make demo` and `make test`. Both install what is missing first.
.PHONY: demo test build bench fuzz clean

demo:
	@scripts/setup.sh demo
	@cargo build --release --quiet --bins
	@target/release/wireloom-demo

# One profile for the tests and what they drive: nothing is compiled twice, and its assertions are checked by all tests.
test:
	@scripts/setup.sh test
	cargo build --profile checks --workspace --bins
	cargo test --profile checks --workspace --lib --bins --tests --no-fail-fast

build:
	@scripts/setup.sh demo
	cargo build --release --bins

bench:
	bench/run.sh full

clean:
	cargo clean
