#!/usr/bin/env bash
# Installs the tests' client libraries that are no packages of the distribution. They are pinned and
# go into target/clients (or WIRELOOM_CLIENTS). A library whose language has no tool on this machine
# is left out. Does nothing where they are there already.
set -uo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
from="$root/tests/clients"
to="${WIRELOOM_CLIENTS:-$root/target/clients}"

# protocol/client tool manifest command…: installs into the client's folder, unless its manifest is
# that of the last time.
client() {
    local name=$1 tool=$2 manifest=$3 folder="$to/$1"
    shift 3
    cmp -s "$from/$manifest" "$folder/installed" && return
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "setup: the client $name is not tested: there is no $tool" >&2
        return
    fi
    rm -rf "$folder" && mkdir -p "$folder"
    # A registry may fail for a moment.
    local wait
    for wait in 1 5 20 0; do
        if (cd "$folder" && "$@") >"$folder/log" 2>&1; then
            cp "$from/$manifest" "$folder/installed"
            return
        fi
        sleep "$wait"
    done
    echo "setup: the client $name cannot be installed:" >&2
    tail -n 5 "$folder/log" >&2
}

with_npm() { cp "$from/$1" . && timeout 300 npm install --silent --no-audit --no-fund; }
with_go() { cp "$from"/redis/go/* . && timeout 300 go build -o client .; }
with_maven() { timeout 300 mvn -q -f "$from/redis/java/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$PWD/lib"; }
with_pip() { timeout 300 python3 -m pip install --quiet --no-compile --target . -r "$from/$1"; }

client redis/python python3 redis/requirements.txt with_pip redis/requirements.txt &
client redis/node npm redis/node/package.json with_npm redis/node/package.json &
client redis/go go redis/go/go.mod with_go &
client redis/java mvn redis/java/pom.xml with_maven &
client beanstalk/python python3 beanstalk/requirements.txt with_pip beanstalk/requirements.txt &
client websocket/python python3 websocket/requirements.txt with_pip websocket/requirements.txt &
client websocket/node npm websocket/node/package.json with_npm websocket/node/package.json &
client mysql/python python3 mysql/requirements.txt with_pip mysql/requirements.txt &
client mysql/node npm mysql/node/package.json with_npm mysql/node/package.json &
wait
