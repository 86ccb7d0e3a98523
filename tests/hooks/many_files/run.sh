#!/bin/sh
# SPDX-License-Identifier: MIT
# $1: the victim. Alike with and without the library, and all files cached.
set -u
victim=$1
rm -rf "$HOOK_WORK"; mkdir -p "$HOOK_WORK" && cd "$HOOK_WORK" || exit 2
timeout 100 "$victim" >without || { cat without; exit 2; }
timeout 100 env LD_PRELOAD="$RACACHE_LIBRARY" RACACHE_STATS="json:$PWD/stats" \
  RACACHE_LOG=error "$victim" >with 2>err
status=$?
cmp -s without with && [ $status = 0 ] && ! [ -s err ] || {
  echo "status $status:"; cat with err; exit 1; }
adopted=$(tr ',{' '\n\n' <stats | sed -n 's/.*"adopted": *\([0-9]*\).*/\1/p')
# Now and then a writer's last close has not come through yet.
[ "${adopted:-0}" -ge 990 ] || { echo "adopted: ${adopted:-none}"; exit 1; }
rm -rf "$HOOK_WORK"
