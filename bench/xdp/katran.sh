#!/bin/sh
# Compiles katran (facebookincubator/katran, GPL-2.0) for `xdp_bench`, which runs it beside our
# balancer.
#     bench/xdp/katran.sh FOLDER         # a clone of katran
#     sudo KATRAN=FOLDER/katran.o bench/xdp/run.sh
# FOLDER gets the clone by git, from GitHub, if it is not there. This repository has nothing of it.
# Changed are sizes alone: the fallback LRU table, which the bench gives to each processor as its
# own, has 2^21 flows. Rates of new connections have no limit, and ids in QUIC packets are fewer.
set -e
folder=${1:?a folder}
mkdir -p "$folder"
cd "$folder"
[ -d katran ] || git clone -q --depth 1 https://github.com/facebookincubator/katran
clang=$(ls /usr/bin/clang /usr/bin/clang-[0-9]* 2>/dev/null | sort -V | tail -1)
: "${clang:?no clang}"
rm -rf sized
mkdir -p sized/katran/lib
cp -r katran/katran/lib/bpf katran/katran/lib/linux_includes sized/katran/lib/
sed -i 's/^#define DEFAULT_LRU_SIZE 1000$/#define DEFAULT_LRU_SIZE 2097152/' sized/katran/lib/bpf/balancer_consts.h
grep -q 'DEFAULT_LRU_SIZE 2097152' sized/katran/lib/bpf/balancer_consts.h
"$clang" -target bpf -O2 -g -mcpu=v3 -w -D__KERNEL__ "-D__$(uname -m)__" -DMAX_CONN_RATE=1000000000 -DMAX_QUIC_REALS=65536 \
    -Isized -I"/usr/include/$(uname -m)-linux-gnu" -c sized/katran/lib/bpf/balancer.bpf.c -o katran.o
echo "$folder/katran.o"
