#!/usr/bin/env bash
# Installs what is missing on a Debian or Ubuntu machine. `setup.sh demo`: to build and run (clang);
# `setup.sh test`: also the real servers and clients that the tests talk to. Does nothing when all
# is there.
set -euo pipefail

need() { # command package
    command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing+=("$2")
}

# Newer ones know newer processors; `wireloom` takes the newest that is there. An older one than
# this is not enough if there is a newer one to be had.
clang_wanted=16

# The version of the newest clang that is here; 0: none.
clang_here() {
    {
        echo 0
        compgen -c clang- | sed -nE 's/^clang-([0-9]+)$/\1/p'
        if command -v clang >/dev/null 2>&1; then clang -dumpversion | cut -d. -f1; fi
    } | sort -n | tail -n 1
}

# The version of the newest clang of the distribution; 0: none.
clang_offered() {
    { echo 0; apt-cache search --names-only '^clang-[0-9]+$' 2>/dev/null | sed -nE 's/^clang-([0-9]+) .*/\1/p'; } | sort -n | tail -n 1
}

missing=()
need cc gcc
if [ "${1:-demo}" = test ]; then
    need nginx nginx-light
    need memcached memcached
    need memccat libmemcached-tools
    need nutcracker nutcracker
    need redis-server redis-server
    need redis-cli redis-tools
    need mosquitto mosquitto
    need mosquitto_sub mosquitto-clients
    need beanstalkd beanstalkd
    need mariadb mariadb-client
    need mariadbd mariadb-server
    need psql postgresql-client
    # Debian has the server's programs in a folder of their version.
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || need initdb postgresql
    need curl curl
    need openssl openssl
    need swaks swaks
    # A machine has one mail server: another one stays, and Postfix is not tested.
    command -v sendmail >/dev/null 2>&1 || [ -x /usr/sbin/sendmail ] || missing+=(postfix)
    need dig bind9-dnsutils
    need dnsmasq dnsmasq-base
    need logger bsdutils
    need go golang-go
    need wrk wrk
    need ab apache2-utils
    need python3 python3
    # The tests take whichever python3 has it; Debian's package belongs to /usr/bin/python3.
    need tshark tshark
    need ip iproute2
    need ping iputils-ping
    need traceroute traceroute
    need ethtool ethtool
    need iperf3 iperf3
    need nfcapd nfdump
    need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    [ -e /usr/aarch64-linux-gnu/include/stdlib.h ] || missing+=(libc6-dev-arm64-cross)
    need qemu-aarch64 qemu-user
    /usr/bin/python3 -c 'import cryptography' 2>/dev/null || python3 -c 'import cryptography' 2>/dev/null || missing+=(python3-cryptography)
    /usr/bin/python3 -c 'import scapy' 2>/dev/null || python3 -c 'import scapy' 2>/dev/null || missing+=(python3-scapy)
    python3 -c 'import prometheus_client' 2>/dev/null || /usr/bin/python3 -c 'import prometheus_client' 2>/dev/null || missing+=(python3-prometheus-client)
    /usr/bin/python3 -c 'import statsd' 2>/dev/null || python3 -c 'import statsd' 2>/dev/null || missing+=(python3-statsd)
    python3 -c 'import aiosmtpd' 2>/dev/null || /usr/bin/python3 -c 'import aiosmtpd' 2>/dev/null || missing+=(python3-aiosmtpd)
    python3 -c 'import paho.mqtt' 2>/dev/null || /usr/bin/python3 -c 'import paho.mqtt' 2>/dev/null || missing+=(python3-paho-mqtt)
    python3 -c 'import pymysql' 2>/dev/null || /usr/bin/python3 -c 'import pymysql' 2>/dev/null || missing+=(python3-pymysql)
    python3 -c 'import psycopg' 2>/dev/null || /usr/bin/python3 -c 'import psycopg' 2>/dev/null || missing+=(python3-psycopg)
    python3 -c 'import pymemcache' 2>/dev/null || /usr/bin/python3 -c 'import pymemcache' 2>/dev/null || missing+=(python3-pymemcache)
fi
if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: Rust is missing; install it from your distribution or with rustup, then run this again" >&2
    exit 1
fi
# Rust's own library for a card's processor. Its test is skipped where rustup is not the source of
# Rust.
if [ "${1:-demo}" = test ] && command -v rustup >/dev/null 2>&1; then
    rustup target list --installed | grep -q aarch64-unknown-linux-gnu || rustup target add aarch64-unknown-linux-gnu || true
fi
clang=$(clang_here)

# The command of a version.
clang_command() {
    if command -v "clang-$clang" >/dev/null 2>&1; then echo "clang-$clang"; else echo clang; fi
}

# The tests compile with sanitizers, whose runtime is a package of its own that belongs to the
# compiler's version.
sanitizers() {
    [ "${1:-demo}" != test ] || echo 'int main(void) { return 0; }' | "$(clang_command)" -fsanitize=address,undefined -x c - -o /dev/null 2>/dev/null
}
# Libraries of clients come from their own registries.
clients() { [ "${1:-demo}" != test ] || "$(dirname "$0")/clients.sh"; }

sudo=""
[ "$(id -u)" -eq 0 ] || sudo=sudo
# A mirror may fail for a moment.
apt() { $sudo apt-get -o Acquire::Retries=4 "$@"; }
updated=""
update() {
    [ -n "$updated" ] || apt update -qq
    updated=yes
}

if [ "$clang" -lt "$clang_wanted" ]; then
    [ "$(clang_offered)" -gt 0 ] || update
    offered=$(clang_offered)
    if [ "$offered" -gt "$clang" ]; then
        missing+=("clang-$offered")
        clang=$offered
    elif [ "$clang" -eq 0 ]; then
        missing+=(clang)
    fi
fi
[ ${#missing[@]} -eq 0 ] && sanitizers "$@" && clients "$@" && exit 0

echo "setup: installing ${missing[*]:-the runtime of sanitizers}"
export DEBIAN_FRONTEND=noninteractive
# Keep packages from starting their servers: the tests start their own.
if [ ! -e /usr/sbin/policy-rc.d ] && [ "$(id -u)" -eq 0 ]; then
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
update
# Postfix gets no settings of the machine: the tests write their own.
case " ${missing[*]} " in
*" postfix "*) echo 'postfix postfix/main_mailer_type select No configuration' | $sudo debconf-set-selections ;;
esac
[ ${#missing[@]} -eq 0 ] || apt install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
clang=$(clang_here)
sanitizers "$@" || apt install -y -qq --no-install-recommends "libclang-rt-$("$(clang_command)" -dumpversion | cut -d. -f1)-dev" >/dev/null
clients "$@"
