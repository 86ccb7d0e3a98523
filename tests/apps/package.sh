#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Why: what is shipped is the package, not the build folder. It must hold the
# library, the program and the papers, and work from where it is unpacked.
. "$(dirname "$0")/../lib/app.sh"
need cpack dpkg-deb dpkg-shlibdeps
build=$(cd "$(dirname "$library")/.." && pwd)
[ -e "$build/CPackConfig.cmake" ] || skip "no CPackConfig.cmake in $build"

cpack --config "$build/CPackConfig.cmake" -G DEB -B "$PWD/out" >log 2>&1 ||
  { tail -n 20 log; fail "cpack: exit status $?"; finish; }
package=$(find out -maxdepth 1 -name '*.deb')
[ -s "$package" ] || { fail "no package"; finish; }
echo "$(basename "$package")"
dpkg-deb -x "$package" tree
(cd tree && find . -type f) | sort >files
for file in /lib.*/libracache\\.so /bin/racache /doc/racache/README\\.md \
  /doc/racache/copyright; do
  grep -qE "$file" files || fail "the package lacks $file"
done
grep -vE '^\./usr/' files && fail "files outside of /usr"
grep -E '\.(a|h|cc|cmake)$|test' files && fail "the files above do not belong"
depends=$(dpkg-deb -f "$package" Depends)
[[ $depends == *libc6* ]] || fail "depends on: '$depends'"

head -c 3000000 /dev/urandom >data
installed=$(find tree -name libracache.so)
LD_PRELOAD=$PWD/$installed RACACHE_STATS=json:$PWD/one.json cat data | cmp - data ||
  fail "the packaged library: other bytes"
[ -s one.json ] || fail "the packaged library cached nothing"
RACACHE_STATS=json:$PWD/two.json tree/usr/bin/racache run cat data |
  cmp - data || fail "racache run: other bytes"
[ -s two.json ] || fail "racache run: it cached nothing"
finish
