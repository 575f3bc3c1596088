#!/bin/sh
# Programs for the kernel's XDP hook beside ones by hand, in one interleaved run: needs root.
#     bench/xdp/run.sh [ROUNDS]
set -e
cd "$(dirname "$0")/../.."
cargo build --quiet --profile checks -p wireloom-tests --example xdp_bench
exec target/checks/examples/xdp_bench "$@"
