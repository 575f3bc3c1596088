# The two commands: `make demo` and `make test`. Both install what is missing first.
.PHONY: demo test build bench fuzz clean

demo:
	@scripts/setup.sh demo
	@cargo build --release --quiet --bins
	@target/release/wireloom-demo

test:
	@scripts/setup.sh test
	cargo build --release --bins
	cargo test --profile checks --workspace --no-fail-fast

build:
	@scripts/setup.sh demo
	cargo build --release --bins

bench:
	bench/run.sh full

clean:
	cargo clean
