#!/usr/bin/env bash
# Fetches a well-known text to train on:  data/get.sh NAME  writes data/NAME.txt once its SHA-256 is right.
# The text is downloaded beside its place and moved there only when it has been checked, so that there is
# never half a file, nor a wrong one.
set -euo pipefail

readonly names="shakespeare tinystories"

usage() {
    echo "usage: data/get.sh NAME, where NAME is one of: $names" >&2
    exit 2
}

fail() {
    echo "get.sh: $1" >&2
    exit 1
}

[ $# -eq 1 ] || usage
readonly name=$1
case $name in
shakespeare) # 1.1 MB of plays, called tinyshakespeare; A. Karpathy, github.com/karpathy/char-rnn.
    # The sum is that of the 1,115,394 bytes at revision 6f9487a of char-rnn; many projects pin the same one.
    url=https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt
    sum=86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed
    ;;
tinystories) # 19 MB of children's stories (the validation part), CDLA-Sharing-1.0; Eldan and Li, arXiv:2305.07759.
    # The sum is that of the 19,447,282 bytes at revision f54c09f of the data set, as pinned by at least six
    # independent public projects, among them forgellm and inkling_quant_lab (evaluate_public_moe_quality.py).
    url=https://huggingface.co/datasets/roneneldan/TinyStories/resolve/main/TinyStories-valid.txt
    sum=94e431816c4cce81ff71e4408ff8d3bda9a42e8d2663986697c3954288cb38b4
    ;;
*) usage ;;
esac

sha256() { # Linux has the one, macOS the other
    if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

command -v curl >/dev/null || fail "curl is needed to fetch $name"
cd "$(dirname "$0")"
part=./$name.part.$$
touch "$part" 2>/dev/null || fail "cannot write to $PWD"
trap 'rm -f "$part"' EXIT
trap 'exit 1' HUP INT TERM

curl --fail --location --silent --connect-timeout 20 --retry 2 --output "$part" "$url" ||
    fail "cannot fetch $url (is there a network?)"
got=$(sha256 "$part")
[ "$got" = "$sum" ] || fail "$name is not the text expected: its SHA-256 is $got, not $sum"
mv "$part" "$name.txt"
echo "data/$name.txt: $(($(wc -c <"$name.txt"))) bytes, SHA-256 as expected"
