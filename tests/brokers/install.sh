#!/bin/sh
# Installs what the tests talk to on Debian or Ubuntu, and builds the container images. Run as root; safe to run again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ "$(id -u)" = 0 ] || { echo "make brokers installs packages: run it as root" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "make brokers knows Debian's apt-get only; README.md lists what it would install" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive

again() {
    # A mirror that hiccups is tried three times.
    for pause in 5 15 0; do
        "$@" && return 0
        [ "$pause" = 0 ] || { echo "failed, again in $pause s: $*" >&2; sleep "$pause"; }
    done
    echo "failed three times: $*" >&2
    return 1
}

# name of the command -> package that has it
missing=""
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need redis-server redis-server
need redis-cli redis-tools
need chromium chromium
need npm npm
need podman podman
need runc runc
need iptables iptables
need debootstrap debootstrap
need systemd-analyze systemd
need java openjdk-17-jre-headless
need kcat kcat
need rabbitmq-server rabbitmq-server
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/veil
# Maven for as long as Kafka's jars are not in the cache.
jars=$cache/kafka-$("$here/kafka/install.sh" --version)
{ [ -e "$jars/complete" ] && [ -e "$jars/plugins/complete" ]; } || need mvn maven
if [ -n "$missing" ]; then
    again apt-get update -q
    # The packages start no service here: the tests start their own brokers on ports of their own.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' > "$policy"
        chmod +x "$policy"
        trap 'rm -f "$policy"' EXIT INT TERM
    fi
    # shellcheck disable=SC2086  # a list of packages, split on purpose
    again apt-get install -y -q --no-install-recommends $missing
fi

# promtool alone, where the tests look for it: its package brings 300 MB of Prometheus and its console.
if ! command -v promtool >/dev/null 2>&1 && [ ! -x "$cache/promtool" ]; then
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/promtool.XXXXXX")
    [ -n "$missing" ] || again apt-get update -q
    (cd "$work" && again apt-get download -q prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool) &&
        mv "$work/usr/bin/promtool" "$cache/promtool"
    rm -rf "$work"
fi

again "$here/kafka/install.sh"

if "$here/containers/engine.sh" info >/dev/null 2>&1; then
    again "$here/containers/build.sh"
else
    echo "no container engine works on this machine: the tests use local processes" >&2
fi
