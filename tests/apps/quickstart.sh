#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Why: the quickstart is the first that anyone sees of this. Its short form
# has to run to the end, show the cache at work, and leave nothing behind.
. "$(dirname "$0")/../lib/app.sh"
need db_bench python3

mkdir folder
ln -s "$library" library.so
RACACHE_LIBRARY=library.so timeout 200 "$root/examples/quickstart.sh" --quick folder \
  >out 2>errors || fail "exit status $?: $(tail -n 5 out errors)"
[ ! -s errors ] || fail "on standard error: $(cat errors)"
[ -z "$(ls -A folder)" ] || fail "left behind: $(ls -A folder)"

python3 - out <<'PYTHON' || fail "see above: $(cat out)"
import re, sys

text = open(sys.argv[1]).read()
problems = []
if not re.search(r"^workload +reader +ops/s +device MB +hit rate$", text, re.M):
    problems.append("no head")
rows = re.findall(r"^(\S.*?) +(kernel|racache) +([\d,]+) +([\d.,]+) +(-|[\d.]+ %)$",
                  text, re.M)
if len(rows) != 6 or len({row[:2] for row in rows}) != 6:
    problems.append(f"rows: {rows}")
for title, reader, speed, device, rate in rows:
    if int(speed.replace(",", "")) == 0 or float(device.replace(",", "")) == 0:
        problems.append(f"{title}, {reader}: nothing was read")
    if (rate == "-") != (reader == "kernel"):
        problems.append(f"{title}, {reader}: hit rate {rate}")
    least = 0 if title.startswith("random") else 50
    if reader == "racache" and not float(rate.split()[0]) > least:
        problems.append(f"{title}: hit rate {rate}")
if not re.search(r"^racache: served +.* reads, hits ", text, re.M):
    problems.append("no statistics")
print("\n".join(problems), end="")
sys.exit(bool(problems))
PYTHON

# What is wrong with the arguments is said in one line, before anything is done.
refused() {
  "$root/examples/quickstart.sh" "$@" >out 2>&1
  [ $? = 2 ] && [ "$(wc -l <out)" = 1 ] || fail "quickstart.sh $*: $(cat out)"
}
refused --fast
refused folder another
refused nowhere
RACACHE_LIBRARY=nowhere.so refused folder
finish
