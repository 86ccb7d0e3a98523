#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs the Debian or Ubuntu packages that are missing, and only those.
#
#   install_packages.sh [build] [bench] [tests]      default: build
#
# As root it asks apt; as anyone else it says in one line what to install and
# exits 1. With nothing missing it touches neither network nor disk.
set -euo pipefail

# One word a package; "a|b" is the first of them that the system knows.
# A word that begins with "?" is welcome, but nothing fails without it.
build="g++ cmake ninja-build liburing-dev libexpected-dev|libtl-expected-dev
  libxxhash-dev libcli11-dev nlohmann-json3-dev doctest-dev libbenchmark-dev"
bench="rocksdb-tools fio python3"
tests="rocksdb-tools fio python3 strace xfsprogs btrfs-progs e2fsprogs dpkg-dev
  file perl git xz-utils ?procps ?valgrind ?sqlite3 ?libcap2-bin ?libjemalloc2
  ?libmimalloc2.0|libmimalloc3 ?libtcmalloc-minimal4t64|libtcmalloc-minimal4
  ?libeatmydata1"

installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}
any_installed() {
  local name
  for name in ${1//|/ }; do installed "$name" && return; done
  return 1
}
known() {
  local policy
  policy=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null)
  [[ $policy == *Candidate:* && $policy != *"Candidate: (none)"* ]]
}

# The first known name of "a|b"; the first name if none is known.
choose() {
  local name
  for name in ${1//|/ }; do known "$name" && { echo "$name"; return; }; done
  echo "${1%%|*}"
  return 1
}

missing=() welcome=()
for group in "${@:-build}"; do
  case $group in build | bench | tests) ;; *) echo "unknown: $group" >&2; exit 2 ;; esac
  for word in ${!group}; do
    any_installed "${word#\?}" && continue
    case $word in \?*) welcome+=("${word#\?}") ;; *) missing+=("$word") ;; esac
  done
done
[ $((${#missing[@]} + ${#welcome[@]})) -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "No apt-get here. This is what the build needs, in Debian's names:" \
    "${missing[*]}" >&2
  exit 0 # CMake says what it does not find
fi
if [ "$(id -u)" != 0 ]; then
  [ ${#missing[@]} -gt 0 ] || exit 0
  names=$(for word in "${missing[@]}"; do choose "$word" || :; done | sort -u)
  echo "Please install first: sudo apt-get install" $names >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -qq -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
install() {
  echo "Installing: $*"
  "${apt[@]}" install --no-install-recommends "$@" >/dev/null
}
if [ ${#missing[@]} -gt 0 ]; then
  "${apt[@]}" update || echo "apt-get update failed; using the old lists" >&2
  install $(for word in "${missing[@]}"; do choose "$word" || :; done | sort -u)
fi
for word in "${welcome[@]}"; do
  if name=$(choose "$word"); then install "$name" || :; fi
done
