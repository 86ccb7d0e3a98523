#!/bin/sh
# SPDX-License-Identifier: MIT
# Each way out: one file, with the reads in it.
set -u
victim=$1
rm -rf "$HOOK_WORK"; mkdir -p "$HOOK_WORK" && cd "$HOOK_WORK" || exit 2
failed=0
for way in return exit _exit _Exit quick_exit exit_group atexit pthread_exit thread vfork fork; do
  mkdir "$way" && cd "$way" || exit 2
  timeout 20 env RACACHE_STATS="json:$PWD/%p.json" \
    LD_PRELOAD="$RACACHE_LIBRARY" "$victim" "$way" >out 2>err || { echo "$way: status $?"; cat out err; failed=1; }
  count=$(ls ./*.json 2>/dev/null | wc -l)
  [ "$count" = 1 ] || { echo "$way: $count files"; failed=1; }
  calls=$(cat ./*.json 2>/dev/null | tr ',{' '\n\n' | sed -n 's/.*"calls": *\([0-9]*\).*/\1/p' | head -n 1)
  least=100; [ $way = vfork ] && least=600
  [ "${calls:-0}" -ge $least ] || { echo "$way: calls ${calls:-none}"; failed=1; }
  [ -s err ] && { echo "$way: said something:"; cat err; failed=1; }
  cd ..
done
# On standard error: also when an exit handler closes it, and only then.
for way in return exit _exit atexit; do
  (cd "$way" && timeout 20 env LD_PRELOAD="$RACACHE_LIBRARY" "$victim" "$way" 2>err)
  lines=$(grep -c '^racache: program' "$way/err")
  [ "$lines" = 1 ] || { echo "$way: on stderr $lines times"; failed=1; }
done
[ $failed = 0 ] && rm -rf "$HOOK_WORK"
exit $failed
