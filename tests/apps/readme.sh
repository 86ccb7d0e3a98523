#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Why: the README is what a newcomer trusts. Its table of variables is the
# program's own, and what it names is there.
. "$(dirname "$0")/../lib/app.sh"

command=$(dirname "$library")/../cli/racache
[ -x "$command" ] || { fail "no $command"; finish; }
"$command" config --markdown >table || fail "config: exit status $?"
[ -s table ] || fail "config --markdown printed nothing"
sed -n '/^<!-- options -->/,/^<!-- \/options -->/p' "$root/README.md" |
  grep '^|' | diff - table || fail "the README's table (<) is not the program's (>)"

# Folders of the table, the commands, links.
for path in $(grep -oE '`(core|preload|cli|tests|examples|scripts)/[^` ]*`|\]\([A-Z]+\)|\./[a-z]+/[a-z]+\.sh' \
  "$root/README.md" | tr -d '`()]'); do
  [ -e "$root/$path" ] || fail "the README names $path"
done
finish
