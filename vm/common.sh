# What vm/setup.sh and vm/run must agree on. Sourced.
# shellcheck shell=bash disable=SC2034
CACHE=${SDVM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/scx_soft_domain}
DEFAULT_KERNEL=6.18
