#!/bin/sh
# Programs for the kernel's XDP hook beside ones by hand, in one interleaved run: needs root.
#     bench/xdp/run.sh [ROUNDS [PROGRAMS]]
# The package xdp-tools has a peer; without it one row is missing.
set -e
cd "$(dirname "$0")/../.."
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
cargo build --quiet --profile checks -p wireloom-tests --example xdp_bench
exec target/checks/examples/xdp_bench "$@"
