#!/bin/sh
# Fetches Kafka's jars from Maven Central into the cache, all of them or none; nothing when they are there.
# --version: says which Kafka, and fetches nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's:.*<kafka>\(.*\)</kafka>.*:\1:p' "$here/pom.xml")
[ "${1-}" != --version ] || { echo "$version"; exit 0; }
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/veil
home=$cache/kafka-$version
[ ! -e "$home/complete" ] || exit 0
mkdir -p "$cache"
work=$(mktemp -d "$cache/kafka.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
# A repository of its own: Maven keeps every file a second time, and leaves what a broken line gave it.
mvn -q -B -f "$here/pom.xml" "-Dmaven.repo.local=$work/repository" \
    org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies \
    -DincludeScope=runtime "-DoutputDirectory=$work/kafka/libs"
[ -e "$work/kafka/libs/kafka_2.13-$version.jar" ] || { echo "Maven fetched no Kafka $version" >&2; exit 1; }
touch "$work/kafka/complete"
rm -rf "$home"
mv "$work/kafka" "$home"
