#!/bin/sh
# Fetches Kafka's jars from Maven Central into the cache, all of them or none; nothing when they are there.
# --version: says which Kafka, and fetches nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's:.*<kafka>\(.*\)</kafka>.*:\1:p' "$here/pom.xml")
[ "${1-}" != --version ] || { echo "$version"; exit 0; }
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/veil
home=$cache/kafka-$version
[ ! -e "$home/complete" ] || [ ! -e "$home/plugins/complete" ] || exit 0
mkdir -p "$cache"
work=$(mktemp -d "$cache/kafka.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

fetch() {
    # A repository of its own: Maven keeps every file a second time, and leaves what a broken line gave it.
    mvn -q -B -f "$here/pom.xml" "-Dmaven.repo.local=$work/repository" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies "$@"
}

if [ ! -e "$home/complete" ]; then
    fetch -DincludeScope=runtime "-DoutputDirectory=$work/kafka/libs"
    [ -e "$work/kafka/libs/kafka_2.13-$version.jar" ] || { echo "Maven fetched no Kafka $version" >&2; exit 1; }
    touch "$work/kafka/complete"
    rm -rf "$home"
    mv "$work/kafka" "$home"
fi
# Connect's plugins, in a folder beside: a jar more in libs would make the archive of classes unfit.
fetch -DincludeScope=provided -DexcludeTransitive=true "-DoutputDirectory=$work/plugins/connect"
ls "$work"/plugins/connect/connect-file-*.jar > /dev/null 2>&1 || { echo "Maven fetched no plugins of Connect" >&2; exit 1; }
touch "$work/plugins/complete"
rm -rf "$home/plugins"
mv "$work/plugins" "$home/plugins"
