# SPDX-License-Identifier: MIT
# Every operation in every place, each in a process of its own. The preload
# list comes from the pair runner; it is given to the victim only, once with
# the helper after the library and once before it.
victim=$1
preload=$LD_PRELOAD; unset LD_PRELOAD
library=${preload%% *} helper=${preload##* }
reversed="$helper $library"
"$victim" make
{
for operation in $("$victim" list); do
  for place in RUN_PREINIT RUN_CONSTRUCTOR RUN_MAIN RUN_LAST; do
    env LD_PRELOAD="$preload" "$place=$operation" \
      timeout 10 "$victim" <data || echo "$operation $place: status $?"
    rm -f new
  done
  env LD_PRELOAD="$reversed" "RUN_CONSTRUCTOR=$operation" \
    timeout 10 "$victim" <data || echo "$operation reversed: status $?"
  rm -f new
done
} >all
cat all
# Five places each.
[ "$(wc -l <all)" = $(($("$victim" list | wc -l) * 5)) ] && echo complete
