#!/usr/bin/env bash
# Installs what building, the guests and their loads need. Repeatable, asks nothing, quick when all is there.
#
#   vm/setup.sh                     build, guest, kernel 6.18 and loads
#   vm/setup.sh PART...             build guest loads peers lint bench fuzz, and kernel [SERIES], as in: guest kernel 7.3
#
# What is not a Debian package goes to $SDVM_CACHE (default: ~/.cache/scx_soft_domain), which clones share.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"

VNG_VERSION=1.42
VIRTIOFSD_VERSION=1.14.0
PEERS_VERSION=1.1.4
PEERS=(scx_rustland scx_rlfifo scx_rusty scx_lavd)

BUILD_PACKAGES=(clang-19 libclang-19-dev gcc libc6-dev libelf-dev zlib1g-dev libseccomp-dev pkg-config make git)
GUEST_PACKAGES=(qemu-system-x86 kmod iproute2 python3 python3-venv libcap-ng-dev libseccomp-dev gcc libc6-dev pkg-config)
LOAD_PACKAGES=(valkey-server valkey-tools stress-ng rt-tests linux-perf numactl bpftool util-linux procps)
LINT_PACKAGES=(shellcheck)
BENCH_PACKAGES=(valgrind)
FUZZ_PACKAGES=(g++)

# Missing or too old in Debian 12 itself: taken from its backports, all else from the release.
FROM_BACKPORTS="qemu-* seabios ipxe-qemu valkey-*"

# "kernel SERIES": the version tried first; when the mirror has dropped it, the newest of the series.
declare -A KERNEL_PINS=([6.16]=6.16.12 [6.18]=6.18.15 [7.0]=7.0.13 [7.3]=7.3.4)

# The scx crates of today ask for it.
RUST_VERSION=1.91

say() { printf '%-8s  %-20s  %s\n' "$@"; }
fail() { echo "vm/setup.sh: $*" >&2; exit 1; }

# --- Debian packages -------------------------------------------------------------------------------------------------
# apt gets a source list and index files of our own, so that nothing of the machine's apt configuration changes and
# nothing that is installed is upgraded. The mirror is the one that the machine itself uses.

codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
apt_dir=$CACHE/apt

own_apt() {
    local tool=$1
    shift
    "$tool" -q -o Dir::Etc::SourceList="$apt_dir/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::PreferencesParts=/dev/null -o Dir::Etc::Preferences="$apt_dir/preferences" \
        -o Dir::State::Lists="$apt_dir/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@"
}

apt_ready=
prepare_apt() {
    [ -z "$apt_ready" ] || return 0
    local sources mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg signed=
    # "URI SUITE" of each source; unlike apt-get indextargets it knows them before the first update.
    sources=$(apt-get update --print-uris | sed -nE "s|^'([^']+)/dists/([^/']+)/InRelease'.*|\1 \2|p")
    mirror=$(awk -v r="$codename" '$2 == r {print $1; exit}' <<<"$sources")
    [ -n "$mirror" ] || fail "apt has no source for '$codename'; add one to /etc/apt/sources.list.d and try again"
    [ ! -e $keyring ] || signed="[signed-by=$keyring] "
    mkdir -p "$apt_dir/lists/partial"
    {
        awk -v r="$codename" -v s="$signed" 'index($2, r) == 1 {print "deb " s $1, $2, "main"}' <<<"$sources"
        echo "deb $signed$mirror $codename-backports main"
        echo "deb $signed$mirror trixie-backports main"
    } | sort -u >"$apt_dir/sources.list"
    {
        printf 'Package: %s\nPin: release n=%s-backports\nPin-Priority: 900\n\n' "$FROM_BACKPORTS" "$codename"
        # Kernels come from there, and are unpacked, never installed.
        printf 'Package: *\nPin: release n=trixie-backports\nPin-Priority: -1\n'
    } >"$apt_dir/preferences"
    say apt "package lists" "from this machine's mirror"
    own_apt apt-get update >"$apt_dir/log" 2>&1 || { tail -5 "$apt_dir/log" >&2; fail "apt-get update failed"; }
    apt_ready=1
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

packages() { # PART PACKAGE...: installs those that are missing
    local part=$1 package wanted=()
    shift
    for package; do
        installed "$package" || wanted+=("$package")
    done
    [ ${#wanted[@]} -gt 0 ] || { say "$part" "Debian packages" "all there"; return 0; }
    [ "$(id -u)" = 0 ] || fail "these Debian packages are missing, run as root to install them: ${wanted[*]}"
    prepare_apt
    say "$part" "Debian packages" "${wanted[*]}"
    # Servers that are loads must not start here: policy-rc.d is Debian's way to say so, and then there is the next boot.
    local policy=/usr/sbin/policy-rc.d own_policy='' status=0
    [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && own_policy=1; }
    own_apt apt-get install -y --no-install-recommends "${wanted[@]}" >"$apt_dir/log" 2>&1 || status=$?
    [ -z "$own_policy" ] || rm $policy
    [ $status = 0 ] || { tail -15 "$apt_dir/log" >&2; fail "apt-get install failed (all of it: $apt_dir/log)"; }
    [[ " ${wanted[*]} " != *" valkey-server "* ]] || ! command -v systemctl >/dev/null || systemctl --quiet disable valkey-server
}

# --- the parts -------------------------------------------------------------------------------------------------------

need_cargo() {
    local version
    version=$(cargo --version 2>/dev/null | cut -d' ' -f2) || version=0
    [ "$(printf '%s\n' $RUST_VERSION "$version" | sort -V | head -1)" = $RUST_VERSION ] ||
        fail "no cargo of $RUST_VERSION or newer in PATH; install a Rust toolchain, for example with rustup"
}

crate() { # PART NAME VERSION DIRECTORY: a program from the crate registry, with the lock file it was published with
    local part=$1 name=$2 version=$3 root=$4
    [ "$(cat "$root/$name.version" 2>/dev/null)" != "$version" ] || { say "$part" "$name $version" "there"; return 0; }
    need_cargo
    mkdir -p "$root"
    say "$part" "$name $version" "building"
    BPF_CLANG=clang-19 cargo install --quiet --locked --force --root "$root" --target-dir "$root/target" --version "=$version" "$name" \
        >"$root/$name.log" 2>&1 || { tail -15 "$root/$name.log" >&2; fail "cargo install $name failed (all of it: $root/$name.log)"; }
    echo "$version" >"$root/$name.version"
}

build() {
    packages build "${BUILD_PACKAGES[@]}"
    need_cargo
    say build "cargo" "$(cargo --version | cut -d' ' -f2)"
}

guest() {
    packages guest "${GUEST_PACKAGES[@]}"
    local venv=$CACHE/venv
    if [ "$(cat "$venv/version" 2>/dev/null)" = $VNG_VERSION ]; then
        say guest "virtme-ng $VNG_VERSION" "there"
    else
        say guest "virtme-ng $VNG_VERSION" "installing"
        /usr/bin/python3 -m venv --clear "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check "virtme-ng==$VNG_VERSION" || fail "pip could not install virtme-ng"
        echo $VNG_VERSION >"$venv/version"
    fi
    crate guest virtiofsd $VIRTIOFSD_VERSION "$CACHE/tools"
    rm -rf "$CACHE/tools/target"
    # guest-init mounts the guest's own modules there, and cannot make the directory.
    [ -d /usr/lib/modules ] || mkdir /usr/lib/modules
}

kernel() { # SERIES, as 6.18
    local series=$1 dir=$CACHE/kernels/$1 names release deb wanted file place
    [ ! -e "$dir/ready" ] || { say kernel "$series" "there: $(cat "$dir/ready")"; return 0; }
    prepare_apt
    names=$(own_apt apt-cache pkgnames linux- | grep -E "^linux-(image|binary|modules|base)-${series//./\\.}[.0-9]*\+deb13-amd64\$" || true)
    release=$(sed -n 's/^linux-image-//p' <<<"$names" | sort -V | grep "^${KERNEL_PINS[$series]:-none}+" || true)
    [ -n "$release" ] || release=$(sed -n 's/^linux-image-//p' <<<"$names" | sort -V | tail -1)
    [ -n "$release" ] || fail "there is no kernel $series in trixie-backports; there are: $(own_apt apt-cache pkgnames linux-image- |
        sed -nE 's/^linux-image-([0-9]+\.[0-9]+).*deb13-amd64$/\1/p' | sort -uV | xargs)"
    say kernel "$series" "unpacking $release"
    rm -rf "$dir"
    mkdir -p "$dir/debs"
    # Up to 6.19 all is in linux-image; since then in several packages, of which the mirror drops some early.
    mapfile -t wanted < <(grep -E "^linux-[a-z]+-${release//+/\\+}\$" <<<"$names")
    # apt would like to drop its rights, for which this directory is closed.
    (cd "$dir/debs" && own_apt apt-get -o APT::Sandbox::User=root download "${wanted[@]/%//trixie-backports}") >"$dir/log" 2>&1 ||
        { tail -5 "$dir/log" >&2; fail "could not download kernel $release"; }
    for deb in "$dir"/debs/*.deb; do dpkg -x "$deb" "$dir"; done
    rm -r "$dir/debs"
    mkdir -p "$dir/usr/lib/modules"
    [ ! -d "$dir/lib/modules" ] || mv "$dir/lib/modules/"* "$dir/usr/lib/modules/"
    for file in vmlinuz config; do
        for place in "boot/$file-$release" "usr/lib/modules/$release/$file"; do
            [ ! -e "$dir/$place" ] || ln -sf "$place" "$dir/$file"
        done
    done
    [ -e "$dir/vmlinuz" ] || fail "no vmlinuz in the packages of kernel $release"
    [ ! -d "$dir/usr/lib/modules/$release" ] || depmod -b "$dir/usr" "$release" >>"$dir/log" 2>&1
    echo "$release" >"$dir/ready"
}

loads() { packages loads "${LOAD_PACKAGES[@]}"; }
lint() { packages lint "${LINT_PACKAGES[@]}"; }
bench() { packages bench "${BENCH_PACKAGES[@]}"; }
fuzz() { packages fuzz "${FUZZ_PACKAGES[@]}"; }

peers() {
    packages peers "${BUILD_PACKAGES[@]}"
    # It takes minutes: let other set-ups pass.
    lock peers
    local name
    for name in "${PEERS[@]}"; do crate peers "$name" $PEERS_VERSION "$CACHE/peers"; done
    rm -rf "$CACHE/peers/target"
    lock setup
}

# Two runs at once (a test and a person) would install the same things twice. One lock at a time is held.
lock() {
    exec 9>"$CACHE/$1.lock"
    flock 9
}

mkdir -p "$CACHE"
lock setup
[ $# -gt 0 ] || set -- build guest kernel loads
while [ $# -gt 0 ]; do
    case $1 in
    build | guest | loads | peers | lint | bench | fuzz) "$1" ;;
    kernel)
        if [[ ${2:-} =~ ^[0-9]+\.[0-9]+$ ]]; then shift; kernel "$1"; else kernel "$DEFAULT_KERNEL"; fi
        ;;
    *) fail "unknown part '$1'; there are: build guest loads peers lint bench fuzz kernel [VERSION]" ;;
    esac
    shift
done
