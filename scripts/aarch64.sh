#!/bin/sh
# Builds wireloom for aarch64, for the tests `packet_processors::`. Needs gcc for aarch64 and Rust's
# library for it (`scripts/setup.sh test`).
set -e
cd "$(dirname "$0")/.."
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc CARGO_INCREMENTAL=0
exec cargo build --quiet --profile checks --target aarch64-unknown-linux-gnu --target-dir target/aarch64 -p wireloom-cli --bin wireloom
