#!/bin/sh
# bench/packet/run.sh [quick|full] [--jobs A,B,…] [options of bench.py run]: packets. Builds the
# hand-written C, makes the traces, runs both interleaved, and refreshes the section about packets
# in bench/README.md.
#   quick  3 rounds: about 10 minutes
#   full   9 rounds, longer runs: about 45 minutes
# `bench/packet/bench.py list` names the jobs. `--jobs @` runs those with frames in and outside of
# the caches, `--jobs NAME@` those of one job. WIRELOOM names the binary (default
# target/release/wireloom); AF_XDP needs root.
set -eu
cd "$(dirname "$0")/../.."
export BENCH_COMMAND="bench/packet/run.sh $*"
mode=${1:-quick}
[ $# -gt 0 ] && shift
case $mode in
quick) set -- --rounds 3 --seconds 0.3 "$@" ;;
full) set -- --rounds 9 --seconds 1 "$@" ;;
*) echo "usage: bench/packet/run.sh [quick|full] [--jobs A,B,…] [options of bench.py run]" >&2; exit 2 ;;
esac
mkdir -p bench/results/packet
out=bench/results/packet/$(date +%Y%m%d-%H%M%S)-$mode.json
python3 bench/packet/bench.py run --out "$out" "$@"
python3 bench/report.py
