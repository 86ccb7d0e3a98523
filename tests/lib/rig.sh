#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs a command with a scratch file system whose device is memory: what a cold
# read costs there is CPU time, and any file system can be had anywhere.
#
#   rig.sh [-s MIB] ext4|xfs|btrfs|overlay|tmpfs COMMAND...
#
# The command finds in its environment RIG (the mount point), RIG_FS and
# RIG_DEVICE (loopN, for /sys/block; empty for tmpfs). Exit status: the
# command's; 77 when the rig cannot be had here (not root, no loop device, not
# enough memory), with one line that says why.
#
# The mounts live in a mount namespace of their own, so they go away with the
# last process in it, however that ends, and the loop device (autoclear) with
# them. All that a SIGKILL can leave is an empty folder.
set -euo pipefail

skip() { echo "skipped: no $fs rig: $*"; exit 77; }

# Inside the namespace. Everything hangs below one tmpfs at $1.
inside() {
  local top=$1 device='' below
  shift
  mount -t tmpfs -o "size=$((size + size / 8 + 64))m,mode=755" racache "$top" ||
    skip "tmpfs cannot be mounted"
  mkdir "$top/fs"
  case $fs in
    tmpfs) ;;
    overlay)
      device=$(on_loop "$top" ext4 "$top/disk") || skip "$device"
      below=$top/disk
      mkdir "$below/lower" "$below/upper" "$below/work"
      mount -t overlay racache "$top/fs" \
        -o "lowerdir=$below/lower,upperdir=$below/upper,workdir=$below/work" ||
        skip "overlay cannot be mounted" ;;
    *) device=$(on_loop "$top" "$fs" "$top/fs") || skip "$device" ;;
  esac
  status=0
  RIG=$top/fs RIG_FS=$fs RIG_DEVICE=$device "$@" || status=$?
  exit $status
}

# Makes $2 on a loop device and mounts it at $3; prints the device's name, or
# why there is none.
on_loop() {
  local top=$1 kind=$2 where=$3 options='' device queue
  case $kind in ext4) options=-F ;; xfs | btrfs) options=-f ;; esac
  mkdir -p "$where"
  truncate -s "${size}M" "$top/image"
  "mkfs.$kind" -q $options "$top/image" >/dev/null 2>&1 ||
    { echo "mkfs.$kind failed"; return 1; }
  mount -t "$kind" -o loop "$top/image" "$where" 2>/dev/null ||
    { echo "mount -o loop refused"; return 1; }
  device=$(basename "$(findmnt -no SOURCE "$where")")
  # A loop device keeps the settings of whoever had it last.
  queue=/sys/block/$device/queue
  echo 128 >"$queue/read_ahead_kb" || :
  echo 1280 >"$queue/max_sectors_kb" || :
  echo "$device"
}

size=1024
if [ "${1:-}" = -s ]; then size=$2; shift 2; fi
fs=${1:?usage: rig.sh [-s MIB] FS COMMAND...}
shift
case $fs in
  ext4 | xfs | btrfs | overlay | tmpfs) ;;
  *) echo "rig.sh: no such rig: $fs" >&2; exit 2 ;;
esac

if [ -n "${RIG_INSIDE:-}" ]; then
  top=$RIG_INSIDE
  unset RIG_INSIDE
  inside "$top" "$@"
fi
[ "$(id -u)" = 0 ] || skip "needs root"
free=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
[ "$free" -gt $((size + 512)) ] || skip "$free MiB of memory are free"
unshare -m true 2>/dev/null || skip "no mount namespaces"
top=$(mktemp -d "${TMPDIR:-/tmp}/racache-rig.XXXXXX")
trap 'rmdir "$top" 2>/dev/null || :' EXIT
status=0
RIG_INSIDE=$top unshare -m --propagation private \
  "$BASH" "$0" -s "$size" "$fs" "$@" || status=$?
exit $status
