#!/bin/sh
# Opens a picture of 384 CPUs in headless Chromium, clicks through it and takes screenshots.
# usage: tests/timeline/browser.sh [FOLDER FOR SCREENSHOTS] [OPTIONS OF sdlab timeline --sim ...]
# Needs: chromium (CHROMIUM names another program), node, and sdlab (BIN names another than that of `cargo build --release`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bin=${BIN:-$here/../../target/release/sdlab}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
shots=${1:-$work}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- --topology nodes=4,llcs=6,cores=16,smt=1 --duration 60ms
for tool in "${CHROMIUM:-chromium}" node "$bin"; do
    command -v "$tool" >/dev/null || { echo "browser.sh: $tool is missing: install it, or see the head of this file" >&2; exit 2; }
done
"$bin" timeline --sim "$@" -o "$work/page.html"
node "$here/browser.mjs" "${CHROMIUM:-chromium}" "$work" "$work/page.html" "$shots"
