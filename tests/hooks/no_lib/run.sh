#!/bin/sh
# SPDX-License-Identifier: MIT
# A preload library is mapped into every program: it may need libc and the
# loader and nothing else, must not ask for an executable stack, and must not
# leave text relocations to every start.
set -u
failed=0
needed=$(readelf -d "$RACACHE_LIBRARY" |
  sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | tr '\n' ' ')
case $needed in
"libc.so.6 ") ;;
"ld-linux-x86-64.so.2 libc.so.6 " | "ld-linux-aarch64.so.1 libc.so.6 ") ;;
*) echo "needs: $needed"; failed=1 ;;
esac
ldd "$RACACHE_LIBRARY" | grep -vE 'linux-vdso|libc\.so\.6|ld-linux' && failed=1
readelf -d "$RACACHE_LIBRARY" | grep -E 'TEXTREL|RUNPATH|RPATH' && failed=1
readelf -lW "$RACACHE_LIBRARY" | grep 'GNU_STACK.*RWE' && failed=1
size=$(readelf -lW "$RACACHE_LIBRARY" | awk '$1 == "TLS" { print $6 }')
[ $((${size:-0})) -le 256 ] || { echo "static TLS: $size"; failed=1; }
exit $failed
