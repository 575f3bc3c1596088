#!/usr/bin/env bash
# Installs the tests' client libraries that are no packages of the distribution. They are pinned and
# go into target/clients (or WIRELOOM_CLIENTS). A library whose language has no tool on this machine
# is left out. Does nothing where they are there already. MariaDB is a package, but a large one: it
# is installed beside them.
set -uo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
from="$root/tests/clients/redis"
to="${WIRELOOM_CLIENTS:-$root/target/clients}/redis"

# client tool manifest command…: installs into the client's folder, unless its manifest is that of
# the last time.
client() {
    local name=$1 tool=$2 manifest=$3 folder="$to/$1"
    shift 3
    cmp -s "$from/$manifest" "$folder/installed" && return
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "setup: $name clients of Redis are not tested: there is no $tool" >&2
        return
    fi
    rm -rf "$folder" && mkdir -p "$folder"
    if (cd "$folder" && "$@") >"$folder/log" 2>&1; then
        cp "$from/$manifest" "$folder/installed"
    else
        echo "setup: $name clients of Redis cannot be installed:" >&2
        tail -n 5 "$folder/log" >&2
    fi
}

with_npm() { cp "$from/node/package.json" . && timeout 300 npm install --silent --no-audit --no-fund; }
with_go() { cp "$from"/go/* . && timeout 300 go build -o client .; }
with_maven() { timeout 300 mvn -q -f "$from/java/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$PWD/lib"; }

mariadb() {
    command -v mariadb >/dev/null 2>&1 && { command -v mariadbd >/dev/null 2>&1 || [ -x /usr/sbin/mariadbd ]; } && return
    local sudo=""
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    # The package must not start its server.
    local policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ] && [ "$(id -u)" -eq 0 ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    command -v apt-get >/dev/null 2>&1 &&
        DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends mariadb-server mariadb-client >/dev/null 2>&1 ||
        echo "setup: MariaDB cannot be installed: mysql_proxy is not tested" >&2
}

mariadb &
client python python3 requirements.txt timeout 300 python3 -m pip install --quiet --no-compile --target . -r "$from/requirements.txt" &
client node npm node/package.json with_npm &
client go go go/go.mod with_go &
client java mvn java/pom.xml with_maven &
wait
