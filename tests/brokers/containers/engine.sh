#!/bin/sh
# A container engine for the tests: the machine's own podman with every setting as a flag.
# What it needs: apt-get install -y --no-install-recommends podman runc iptables debootstrap
# Its store lies under $VEIL_CONTAINERS (default ~/.cache/veil/containers), so that the machine's other containers are not touched.
set -eu
store=${VEIL_CONTAINERS:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/veil/containers}
mkdir -p "$store"
podman=$(command -v podman) || { echo "podman is not installed: make brokers" >&2; exit 127; }
runtime=$(command -v runc || echo /usr/sbin/runc)
# crun 1.8 refuses hybrid cgroups, hence runc; the hard limit of open files may be below podman's default, hence the ulimits;
# flags, because the same settings in the engine's own files made each call take 20 s.
CONTAINERS_CONF=$store/containers.conf
export CONTAINERS_CONF
files=$(ulimit -Hn)
[ -f "$CONTAINERS_CONF" ] || {
    printf '[containers]\ndefault_ulimits = ["nofile=%s:%s", "nproc=32768:32768"]\n' "$files" "$files" > "$CONTAINERS_CONF.$$"
    mv "$CONTAINERS_CONF.$$" "$CONTAINERS_CONF"
}
exec "$podman" --root "$store/root" --runroot "$store/run" --cgroup-manager=cgroupfs --events-backend=file --runtime "$runtime" "$@"
