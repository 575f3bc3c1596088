#!/bin/sh
# Compiles BMC (Orange-OpenSource/bmc-cache, LGPL-2.1) for `xdp_bench`, which runs it beside our
# cache.
#     bench/xdp/bmc.sh FOLDER            # a clone of BMC, and of katran for its BPF headers
#     sudo BMC=FOLDER/bmc.o bench/xdp/run.sh
# FOLDER gets both clones by git, from GitHub, if they are not there. This repository has nothing of
# them. Changed are the number of entries (16,384), the longest key (60 bytes) and the names of
# sections. With newer clangs the kernel refuses its loops over longer keys. The program for answers
# (tc) and that for writes are left out: the bench fills the cache.
set -e
folder=${1:?a folder}
mkdir -p "$folder"
cd "$folder"
[ -d bmc-cache ] || git clone -q https://github.com/Orange-OpenSource/bmc-cache
[ -d katran ] || git clone -q --depth 1 https://github.com/facebookincubator/katran
clang=$(ls /usr/bin/clang /usr/bin/clang-[0-9]* 2>/dev/null | sort -V | tail -1)
: "${clang:?no clang}"
sed -e 's/^#define BMC_MAX_KEY_LENGTH 250/#define BMC_MAX_KEY_LENGTH 60/' \
    -e 's/^#define BMC_CACHE_ENTRY_COUNT 3250000/#define BMC_CACHE_ENTRY_COUNT 16384/' \
    bmc-cache/bmc/bmc_common.h > bmc_common.h
sed -e '/^SEC("bmc_invalidate_cache")/,$d' -e 's/^SEC("bmc_[a-z_]*")/SEC("xdp")/' bmc-cache/bmc/bmc_kern.c > bmc.c
cat >> bmc.c <<'C'
char _license[] SEC("license") = "GPL";
C
cat > compat.h <<'C'
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
enum { IPPROTO_TCP = 6, IPPROTO_UDP = 17 };
#define htons(n) __builtin_bswap16(n)
#define ntohs(n) __builtin_bswap16(n)
#define memcpy(d, s, n) __builtin_memcpy(d, s, n)
C
"$clang" -target bpf -O2 -g -mcpu=v2 -w -include linux/types.h -include compat.h -I. \
    -Ikatran/katran/lib/linux_includes -I"/usr/include/$(uname -m)-linux-gnu" -c bmc.c -o bmc.o
echo "$folder/bmc.o"
