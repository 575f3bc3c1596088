#!/bin/sh
# Installs what the benchmark compares with, and what it needs to run, from the distribution
# (Debian, Ubuntu). apache2 and caddy are optional peers: give --all for them too.
set -eu
packages="nginx libnginx-mod-stream haproxy nutcracker memcached postgresql pgbouncer wrk gcc libc6-dev liburing-dev python3 iproute2 iperf3 nftables"
[ "${1:-}" = --all ] && packages="$packages apache2 caddy"
[ "$(id -u)" = 0 ] && run= || run=sudo
$run apt-get update
# The packages' own services must neither start nor take ports: policy-rc.d refuses while they are
# installed.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | $run tee $policy > /dev/null
    $run chmod +x $policy
    trap '$run rm -f $policy' EXIT
fi
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $run apt-get install -y --no-install-recommends $packages
