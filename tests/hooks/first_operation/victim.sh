# SPDX-License-Identifier: MIT
# Every operation in every place, each in a process of its own. The preload
# list comes from the pair runner; it is given to the victim only, once with
# the helper after the library and once before it.
exports=$(dirname "$0")/../exports.txt
victim=$1
preload=$LD_PRELOAD; unset LD_PRELOAD
library=${preload%% *} helper=${preload##* }
reversed="$helper $library"
"$victim" make
# Every export has a row of its name. One name more shows each time that what
# is missing is found.
sh "$(dirname "$0")/../calls_all.sh" "$victim" || exit 1
"$victim" list | LC_ALL=C sort >rows
{ cat "$exports"; echo an_export_more; } | LC_ALL=C sort |
  LC_ALL=C comm -23 - rows >missing
[ "$(cat missing)" = an_export_more ] || {
  echo "exports without a row:"; cat missing; exit 1; }
for place in RUN_PREINIT RUN_CONSTRUCTOR RUN_MAIN RUN_LAST; do
  "$victim" "$victim" "$preload" "$place"
done >all
"$victim" "$victim" "$reversed" RUN_CONSTRUCTOR >>all
cat all
# Five places each, and none that ended otherwise.
grep -q status all && exit 1
[ "$(wc -l <all)" = $(($("$victim" list | wc -l) * 5)) ] && echo complete
