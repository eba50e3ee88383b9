#!/bin/sh
# Installs the fulgurite command from a release's archive, checked against its digest:
#
#     sh install.sh --from URL|DIRECTORY [--to DIRECTORY]
#
# URL is where the files of a release are; they are fulgurite-TARGET.tar.gz and SHA256SUMS. It writes one file, the command,
# into ~/.local/bin unless told otherwise, and changes no shell's settings.
set -eu

fail() {
    echo "error: $1" >&2
    exit "${2:-1}"
}

from=${FULGURITE_RELEASE:-} to=$HOME/.local/bin
while [ $# -gt 0 ]; do
    case $1 in
        --from) from=${2:?--from needs a URL or a directory}; shift 2 ;;
        --to) to=${2:?--to needs a directory}; shift 2 ;;
        -h | --help) sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) fail "unknown argument $1; help: sh install.sh --help" 2 ;;
    esac
done
[ -n "$from" ] || fail "where is the release? help: sh install.sh --from URL" 2

case $(uname -s)-$(uname -m) in
    Linux-x86_64) target=x86_64-unknown-linux-gnu ;;
    Linux-aarch64) target=aarch64-unknown-linux-gnu ;;
    Darwin-arm64) target=aarch64-apple-darwin ;;
    *) fail "there is no release for $(uname -s) on $(uname -m); help: cargo build --release, from the sources" ;;
esac
# A system without glibc has the program that is linked with musl.
if [ "$(uname -s)" = Linux ] && ! ldd --version 2>&1 | grep -qi 'glibc\|gnu libc'; then
    target=$(echo "$target" | sed 's/-gnu$/-musl/')
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
get() {
    case $from in
        http://* | https://*)
            if command -v curl >/dev/null; then
                curl --fail --location --silent --show-error --output "$scratch/$1" "$from/$1"
            elif command -v wget >/dev/null; then
                wget --quiet --output-document "$scratch/$1" "$from/$1"
            else
                fail "neither curl nor wget is there"
            fi || fail "cannot download $from/$1"
            ;;
        *) cp "$from/$1" "$scratch/$1" || fail "cannot read $from/$1" ;;
    esac
}
archive=fulgurite-$target.tar.gz
get "$archive"
get SHA256SUMS
grep "  $archive\$" "$scratch/SHA256SUMS" >"$scratch/sum" || fail "SHA256SUMS of $from has no $archive"
if command -v sha256sum >/dev/null; then
    (cd "$scratch" && sha256sum --check --status sum)
else
    (cd "$scratch" && shasum --algorithm 256 --check --status sum)
fi || fail "$archive is not the file that SHA256SUMS names; nothing was installed"

tar -xzf "$scratch/$archive" -C "$scratch"
mkdir -p "$to"
# Moved into its place whole, so that a program that runs is not written over.
cp "$scratch/fulgurite-$target/fulgurite" "$to/.fulgurite.new"
chmod 755 "$to/.fulgurite.new"
"$to/.fulgurite.new" --version >/dev/null || { rm -f "$to/.fulgurite.new"; fail "the program does not run on this system"; }
mv "$to/.fulgurite.new" "$to/fulgurite"
echo "installed $("$to/fulgurite" --version | head -n 1) as $to/fulgurite"
case :$PATH: in
    *:"$to":*) ;;
    *) echo "help: $to is not on the PATH: export PATH=\"$to:\$PATH\"" ;;
esac
