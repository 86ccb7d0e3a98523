#!/bin/sh
# SPDX-License-Identifier: MIT
# Each way out: one file, with the reads in it.
set -u
victim=$1
rm -rf "$HOOK_WORK"; mkdir -p "$HOOK_WORK" && cd "$HOOK_WORK" || exit 2
failed=0
complain() { echo "$way: $*"; failed=1; }

for way in return exit _exit _Exit quick_exit exit_group atexit pthread_exit \
           thread vfork fork; do
  mkdir "$way" && cd "$way" || exit 2
  timeout 20 env RACACHE_STATS="json:$PWD/%p.json" \
    LD_PRELOAD="$RACACHE_LIBRARY" "$victim" "$way" >out 2>err ||
    complain "status $?: $(cat out err)"
  count=$(ls ./*.json 2>/dev/null | wc -l)
  [ "$count" = 1 ] || complain "$count files"
  calls=$(cat ./*.json 2>/dev/null | tr ',{' '\n\n' |
    sed -n 's/.*"calls": *\([0-9]*\).*/\1/p' | head -n 1)
  least=100; [ $way = vfork ] && least=600
  [ "${calls:-0}" -ge $least ] || complain "calls ${calls:-none}"
  [ -s err ] && complain "said something: $(cat err)"
  cd ..
done

# On standard error: also when an exit handler closes it, and only once.
for way in return exit _exit atexit; do
  (cd "$way" &&
    timeout 20 env LD_PRELOAD="$RACACHE_LIBRARY" "$victim" "$way" 2>err)
  lines=$(grep -c '^racache: program' "$way/err")
  [ "$lines" = 1 ] || complain "on stderr $lines times"
done
[ $failed = 0 ] && rm -rf "$HOOK_WORK"
exit $failed
