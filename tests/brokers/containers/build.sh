#!/bin/sh
# Builds the images of the tests without an image registry: debootstrap, import, build. About a minute; nothing when they are there.
# Needs root. The Debian mirror is the one this machine's own apt uses.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
engine=$here/engine.sh
cache=${VEIL_CONTAINERS:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/veil/containers}
base=localhost/veil-test/debian:bookworm
redis=localhost/veil-test/redis:7
version=$("$here/../kafka/install.sh" --version)
kafka=localhost/veil-test/kafka:$version
rabbitmq=localhost/veil-test/rabbitmq:3.10.8
jars=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/veil/kafka-$version

mirror_of_this_machine() {
    # Whatever form the sources have (one line or deb822): apt knows what it reads.
    apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(SUITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
        awk '$NF == "main" && / bookworm / {print $1; exit}'
}

if ! "$engine" image exists "$base"; then
    mirror=$(mirror_of_this_machine)
    [ -n "$mirror" ] || { echo "no apt source of this machine offers Debian bookworm main" >&2; exit 1; }
    work=$(mktemp -d "$cache/rootfs.XXXXXX")
    trap 'rm -rf "$work"' EXIT INT TERM
    debootstrap --variant=minbase --include=ca-certificates bookworm "$work/rootfs" "$mirror" > "$work/log" 2>&1 || {
        tail -n 20 "$work/log" "$work/rootfs/debootstrap/debootstrap.log" >&2 || true
        echo "debootstrap from $mirror failed" >&2
        exit 1
    }
    # The build's apt asks the same mirror, through the same proxies, as this machine's.
    cp /etc/apt/apt.conf.d/*proxy* "$work/rootfs/etc/apt/apt.conf.d/" 2>/dev/null || true
    tar -C "$work/rootfs" -cf "$work/rootfs.tar" .
    "$engine" import "$work/rootfs.tar" "$base" > /dev/null
fi
"$engine" image exists "$redis" ||
    "$engine" build --network=host --build-arg "BASE=$base" -t "$redis" -f "$here/Containerfile.redis" "$here"
"$engine" image exists "$kafka" ||
    "$engine" build --network=host --build-arg "BASE=$base" -t "$kafka" -f "$here/Containerfile.kafka" "$jars"
"$engine" image exists "$rabbitmq" ||
    "$engine" build --network=host --build-arg "BASE=$base" -t "$rabbitmq" -f "$here/Containerfile.rabbitmq" "$here"
# What Veil's own image is built on in the tests, a stage each.
for stage in python python-build; do
    image=localhost/veil-test/$stage:3.11
    "$engine" image exists "$image" ||
        "$engine" build --network=host --build-arg "BASE=$base" --target "$stage" -t "$image" -f "$here/Containerfile.python" "$here"
done
echo "images: $redis $kafka $rabbitmq localhost/veil-test/python:3.11 localhost/veil-test/python-build:3.11"
