#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Why: people parse the statistics. The JSON holds exactly the keys that the
# README lists, numbers that cannot contradict each other, and nothing is
# written where nothing was cached or nothing was asked for.
. "$(dirname "$0")/../lib/app.sh"
need python3

head -c 9000001 /dev/urandom >data
cat >reader.py <<'PYTHON'
import os
fd = os.open("data", os.O_RDONLY)
while os.read(fd, 10000):
    pass
for i in range(1000):
    os.pread(fd, 4096, i * 9000)
PYTHON
calls=1902 # of them one at the end of the file
bytes=$((9000001 + 1000 * 4096))

RACACHE_INCLUDE=$PWD/data preload "$PWD/one.json" python3 reader.py ||
  fail "exit status $?"
[ -s one.json ] || { fail "no statistics"; finish; }
python3 - one.json "$root/README.md" $calls $bytes <<'PYTHON' || fail "see above"
import json, os, re, sys

data = json.load(open(sys.argv[1]))
readme = open(sys.argv[2]).read()
calls, size = int(sys.argv[3]), int(sys.argv[4])
wrong = []


def section(name):
    return readme.split(f"<!-- {name} -->")[1].split(f"<!-- /{name} -->")[0]


def names(name):
    """The words in backticks of a table's first column."""
    rows = [r for r in section(name).splitlines() if r.startswith("| `")]
    return {w for r in rows for w in re.findall("`([^`]+)`", r.split("|")[1])}


def flatten(value, at):
    if isinstance(value, dict) and at != "files.kernel":
        for key, inner in value.items():
            yield from flatten(inner, f"{at}.{key}" if at else key)
    elif at == "top_files":
        for file in value:
            yield from (f"top_files[].{key}" for key in file)
    else:
        yield at


def check(what, holds):
    if not holds:
        wrong.append(what)


found = set(flatten(data, ""))
expected = names("statistics") - {"config.*"}
expected |= {f"config.{name}" for name in names("options")}
check(f"keys missing: {sorted(expected - found)}", expected <= found)
check(f"keys not in the README: {sorted(found - expected)}", found <= expected)

reads, device, files = data["reads"], data["device"], data["files"]
check(f"reads.calls: {reads['calls']}", calls - 1 <= reads["calls"] <= calls)
check(f"reads.bytes: {reads['bytes']}, not {size}", reads["bytes"] == size)
check("hits + misses = calls",
      reads["calls"] - 1 <= reads["hits"] + reads["misses"] <= reads["calls"])
check("most reads are hits", reads["hits"] > calls * 0.9)
check("syscalls_avoided <= calls", reads["syscalls_avoided"] <= reads["calls"])
check("hit_bytes <= bytes", reads["hit_bytes"] <= reads["bytes"])
check("used_bytes <= bytes", device["used_bytes"] <= device["bytes"])
top = data["top_files"]
check(f"top_files: {top}", len(top) == 1 and top[0]["path"].endswith("/data")
      and top[0]["reads"] == reads["calls"] and top[0]["hits"] == reads["hits"])
check("the file came from somewhere",
      device["bytes"] + device["from_page_cache_bytes"] >= 9000001)
check("files.adopted", files["adopted"] == 1)
check("reasons are counts", all(n > 0 for n in files["kernel"].values()))
for key in ("by_order", "inserted_by_order"):
    check(f"folios.{key} has ten numbers", len(data["folios"][key]) == 10)
check("folios live", sum(data["folios"]["by_order"]) == data["folios"]["live"])
check("memory.used <= limit", data["memory"]["used"] <= data["memory"]["limit"])
memory = data["memory"]
switch = "/sys/kernel/mm/transparent_hugepage/enabled"
modes = open(switch).read() if os.path.exists(switch) else "[never]"
check(f"memory.huge: {memory['huge']}",
      (memory["huge"] >= 2 << 20) == ("[never]" not in modes))
check("program", data["program"].startswith("python3"))
print("\n".join(wrong))
sys.exit(bool(wrong))
PYTHON

# Through a pipe: to a file cat would have the kernel copy.
pass() {
  LD_PRELOAD=$library "$@" cat data 2>err | cmp - data || fail "$*: other bytes"
}

# Text goes to standard error unless told otherwise, in at most 15 lines.
pass env
lines=$(wc -l <err)
[ "$lines" -ge 5 ] && [ "$lines" -le 15 ] || fail "$lines lines of text"
grep -v '^racache: ' err && fail "text: the line above"
pass env RACACHE_STATS="text:$PWD/text.%p.%c"
[ -s err ] && fail "text:PATH wrote to standard error as well"
ls text.*.cat >/dev/null || fail "no text in text.PID.cat"

# Silence: asked for, or because nothing was cached.
pass env RACACHE_STATS=off
[ -s err ] && fail "off: $(head -n 1 err)"
LD_PRELOAD=$library true 2>err || fail "true: $?"
[ -s err ] && fail "true: $(head -n 1 err)"
preload "$PWD/none.json" true
[ -e none.json ] && fail "statistics of a process that cached nothing"

# A bad value is one line that names it; the program runs.
pass env RACACHE_SIZE=lots RACACHE_STATS=off
[ "$(wc -l <err)" = 1 ] && grep -q 'RACACHE_SIZE.*lots' err ||
  fail "bad value: '$(cat err)'"
finish
