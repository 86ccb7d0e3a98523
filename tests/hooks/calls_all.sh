#!/bin/sh
# SPDX-License-Identifier: MIT
# Whether a victim calls each name that the library exports.
#
#   calls_all.sh VICTIM
#
# openat2, which libc may lack, is looked up by the victims. One name more
# shows each time that what is missing is found.
set -u
export LC_ALL=C
exports=$(dirname "$0")/exports.txt
called=$(nm -D --undefined-only "$1" | sed 's/.* //; s/@.*//'; echo openat2)
missing=$({ cat "$exports"; echo an_export_more; } | sort | {
  echo "$called" | sort >called; comm -23 - called; })
[ "$missing" = an_export_more ] && exit 0
echo "exported, not called by the victim: $missing"
exit 1
