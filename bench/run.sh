#!/bin/sh
# bench/run.sh [quick|full]: runs the jobs of the targets with Wireloom and its peers interleaved,
# then refreshes the result table in bench/README.md.
# quick: 2 rounds of 2 s, only the peers the targets name, 256 MiB of words. About 5 minutes.
# full: 5 rounds of 3 s, every peer, 1 GiB of words. About an hour.
# WIRELOOM names the binary (default target/release/wireloom); further arguments go to
# `bench.py run`.
set -eu
cd "$(dirname "$0")/.."
export BENCH_COMMAND="bench/run.sh $*"
mode=${1:-quick}
[ $# -gt 0 ] && shift
jobs=static,lb_ka,lb_close,mc_ascii,mc_bin,mc_pipe8,mem_lb,mem_mc,words
case $mode in
quick) set -- --jobs $jobs --quick --rounds 2 --dur 2 --words-mib 256 --retry 0 --wait 2 --wait-total 60 "$@" ;;
full) set -- --rounds 5 --dur 3 --words-mib 1024 --retry 0 --wait 5 --wait-total 600 "$@" ;;
*) echo "usage: bench/run.sh [quick|full] [options of bench.py run]" >&2; exit 2 ;;
esac
mkdir -p bench/results
out=bench/results/$(date +%Y%m%d-%H%M%S)-$mode.json
python3 bench/l7/bench.py run --out "$out" "$@"
python3 bench/report.py
