# SPDX-License-Identifier: MIT
"""The racache command as users meet it: what it starts gets the library, its
own arguments and its own exit status; and it says so when it cannot help."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

RACACHE, LIBRARY, STATIC, ENGINE, SCRATCH = sys.argv[1:6]
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
failures = 0


def run(*arguments, **variables):
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("RACACHE", "LD_PRELOAD"))}
    environment["RACACHE_LIBRARY"] = LIBRARY
    environment.update(variables)
    return subprocess.run([RACACHE, *arguments], env=environment, text=True,
                          capture_output=True, timeout=30, check=False)


def check(what, condition, result):
    global failures
    if not condition:
        failures += 1
        print(f"{what}: exit {result.returncode}\n  out: {result.stdout!r}\n"
              f"  err: {result.stderr!r}")


def check_run(directory):
    r = run("run", "--", "sh", "-c", "echo $RACACHE_STATS; exit 7")
    check("exit status", r.returncode == 7, r)
    check("nothing is set unasked", r.stdout == "preloaded\n\n", r)
    r = run("run", "--stats", "json:/x y", "--size=64M", "--", "sh", "-c",
            'echo "$RACACHE_STATS $RACACHE_SIZE"')
    check("options", r.stdout == "preloaded\njson:/x y 64M\n", r)
    r = run("run", "--stats", "off", "echo", "--stats", "--", "-x")
    check("the program's options", r.stdout == "preloaded\n--stats -- -x\n", r)
    other = shutil.copy(LIBRARY, os.path.join(directory, "other.so"))
    r = run("run", "--", "sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=other)
    check("in front", r.stdout.endswith(f"\n{LIBRARY}:{other}\n"), r)


def check_refusals(directory):
    r = run("run", "--", STATIC, "a", "b")
    check("static: it runs", (r.returncode, r.stdout) == (43, "a\nb\n"), r)
    check("static: it is said", "is statically linked" in r.stderr, r)
    r = run("run", "--", "no-such-program")
    check("not found", r.returncode == 127, r)
    r = run("run", "--", directory)
    check("a directory", r.returncode == 126, r)
    r = run("run", "--", "true", RACACHE_LIBRARY="/nowhere/x.so")
    check("no library", r.returncode == 125 and "/nowhere/x.so" in r.stderr, r)
    spaced = os.path.join(directory, "a b.so")
    shutil.copy(LIBRARY, spaced)
    r = run("run", "--", "true", RACACHE_LIBRARY=spaced)
    check("a space in the path", r.returncode == 125 and "space" in r.stderr, r)
    r = run("run")
    check("no program", r.returncode == 2 and "PROGRAM" in r.stderr, r)
    r = run("run", "--no-such-option", "1", "--", "true")
    check("unknown option", r.returncode == 2, r)
    script = os.path.join(directory, "plain")
    with open(script, "w", encoding="ascii") as f:
        f.write("echo from a plain script\n")
    os.chmod(script, 0o755)
    r = run("run", "--", script)
    check("a script without #!", "from a plain script" in r.stdout, r)


def check_config():
    r = run("config", "--json", RACACHE_SIZE="64M", RACACHE_EXCLUDE='/a"\xff')
    options = json.loads(r.stdout)
    check("values in force", options["RACACHE_SIZE"]["value"] == "64M" and
          options["RACACHE_SIZE"]["set"] and
          not options["RACACHE_IO"]["set"], r)
    r = run("config", RACACHE_IO="bad")
    check("a bad value is reported", "RACACHE_IO=bad: not under" in r.stderr and
          r.returncode == 0, r)
    check("every option is listed", all(name in r.stdout for name in options), r)
    plain = run("config", "--markdown")
    check("the table", all(f"`{name}`" in plain.stdout for name in options),
          plain)
    loaded = run("config", "--markdown", RACACHE_SIZE="64M")
    check("the table is the same everywhere", plain.stdout == loaded.stdout,
          loaded)


def check_doctor(directory):
    r = run("doctor", "--dir", directory, "--json")
    verdicts = {c["name"]: c["verdict"] for c in json.loads(r.stdout)}
    check("all is looked at", {"kernel", "io_uring", "cachestat", "membarrier",
          "lease", "O_DIRECT", "huge pages", "memory"} <= set(verdicts), r)
    worst = {"ok": 0, "warn": 1, "FAIL": 2}
    check("exit status",
          r.returncode == max(worst[v] for v in verdicts.values()), r)
    check("nothing is left behind", not [f for f in os.listdir(directory)
          if "doctor" in f], r)
    r = run("doctor", "--dir", "/proc")
    check("/proc cannot be cached", r.returncode == 2 and "FAIL" in r.stdout, r)
    r = run("doctor", "/no/such/directory")
    check("no directory", r.returncode == 2, r)
    check_doctor_on_files(directory)


def check_doctor_on_files(directory):
    big = os.path.join(directory, "big")
    small = os.path.join(directory, "small")
    for path, size in ((big, 1 << 20), (small, 1)):
        with open(path, "wb") as f:
            f.write(b"x" * size)
    r = run("doctor", big, small)
    check("each file", r.stdout.count("lease  ") == 2 and
          "1 bytes: less than RACACHE_MIN_FILE" in r.stdout, r)
    r = run("doctor", "--json", small, RACACHE_MIN_FILE="1")
    verdicts = {c["name"]: c["verdict"] for c in json.loads(r.stdout)}
    check("the limit in force", verdicts["size"] == "ok", r)
    with open(big, "ab"):
        r = run("doctor", big)
    check("the writer is named", r.returncode == 2 and
          f"open for writing in python3 (pid {os.getpid()})" in r.stdout, r)


def check_manual():
    share = os.path.join(SOURCE, "cli", "share")
    with open(os.path.join(share, "racache.1"), encoding="ascii") as f:
        manual = f.read()
    r = run("config", "--man", RACACHE_SIZE="64M")
    between = re.search(r'begin: racache config --man\n(.*)\.\\" end\n', manual,
                        re.S)
    check("the manual's variables", between and between[1] == r.stdout, r)
    r = run("--help")
    for command in subcommands(r.stdout):
        check(f"the manual on {command}", f".SS racache {command}\n" in manual, r)
    if shutil.which("bash"):
        check_completion(os.path.join(share, "racache.bash"))


def subcommands(text):
    return re.findall(r"^  ([a-z]+) ", re.split("subcommands:", text,
                                                flags=re.I)[1], re.M)


def complete(script, *words):
    """What bash offers for the last word."""
    listed = " ".join(f"'{word}'" for word in words)
    r = subprocess.run(
        ["bash", "-c", f"source {script}; COMP_WORDS=({listed}); "
         f"COMP_CWORD={len(words) - 1}; _racache; printf '%s\\n' "
         '"${COMPREPLY[@]}"'], text=True, capture_output=True, timeout=30,
        check=False, env={**os.environ, "PATH": os.path.dirname(RACACHE) +
                          ":" + os.environ["PATH"]})
    return r, r.stdout.split()


def check_completion(script):
    r, words = complete(script, "racache", "")
    check("subcommands are offered", {"run", "doctor", "stat", "config", "sim"} <= set(words), r)
    r, words = complete(script, "racache", "run", "--read")
    check("options are offered", words == ["--read-ahead-kb"], r)
    r, words = complete(script, "racache", "run", "--", "tru")
    check("programs are offered", "true" in words, r)


READER = """
import os, sys, time
f = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(100):
    os.pread(f, 4096, 0)
print("ready", flush=True)
sys.stdin.readline()
"""


def start_reader(data, live, **streams):
    """Reads `data` a hundred times, says so, and waits for a line."""
    return subprocess.Popen(
        [sys.executable, "-c", READER, data], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, **streams,
        env={**os.environ, "LD_PRELOAD": ENGINE, "RACACHE_LIVE": live,
             "RACACHE_INCLUDE": data, "RACACHE_STATS": "off"})


def check_stat(directory):
    data = os.path.join(directory, "data")
    with open(data, "wb") as f:
        f.write(b"x" * (1 << 20))
    live = os.path.join(directory, "live")
    r = run("stat", RACACHE_LIVE=live)
    check("nobody", r.returncode == 1 and f"to {live};" in r.stderr, r)
    reader = start_reader(data, live)
    reader.stdout.readline()
    check_watched(live, reader.pid)
    reader.communicate("\n")
    r = run("stat", RACACHE_LIVE=live)
    check("it is gone", reader.returncode == 0 and r.returncode == 1, r)
    check("nothing is left", not os.listdir(live), r)
    check_unsafe(data, directory)


def check_watched(live, pid):
    deadline = time.monotonic() + 20
    reads = 0
    while reads < 100 and time.monotonic() < deadline:
        r = run("stat", "--json", str(pid), RACACHE_LIVE=live)
        if r.returncode == 0:
            reads = json.loads(r.stdout)[0]["reads"]["calls"]
    check("its reads", reads == 100, r)
    own = os.stat(os.path.join(live, f"{pid}.json"))
    check("nobody else may look", own.st_mode & 0o777 == 0o600, r)
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = os.path.join(live, f"{ended.pid}.json")
    with open(left, "w", encoding="ascii") as f:
        f.write("{}")
    with open(os.path.join(live, "1.json"), "w", encoding="ascii") as f:
        f.write("no JSON")
    r = run("stat", RACACHE_LIVE=live)
    check("one line of it", r.returncode == 0 and len(r.stdout.splitlines()) == 2
          and f"{pid} " in r.stdout and " 99.0 " in r.stdout, r)
    check("what a dead process left", not os.path.exists(left), r)
    os.remove(os.path.join(live, "1.json"))
    r = run("stat", "-i", "0.2", "-n", "3", RACACHE_LIVE=live)
    check("three looks", len(r.stdout.splitlines()) == 4, r)


def check_unsafe(data, directory):
    """A directory that others may write to is not written to."""
    shared = os.path.join(directory, "shared")
    os.mkdir(shared)
    os.chmod(shared, 0o777)
    reader = start_reader(data, shared, stderr=subprocess.PIPE)
    line = reader.stderr.readline()
    reader.communicate("\n")
    check("a shared directory", reader.returncode == 0 and
          not os.listdir(shared) and
          f"nothing is written to {shared}: EPERM" in line, reader)


STRACE = """\
7 1.0 openat(AT_FDCWD, "/d/a", O_RDONLY) = 3
7 1.5 pread64(3, "x"..., 65536, 0) = 65536
7 1.6 pread64(3, "x"..., 65536, 0) = 65536
"""


def check_sim(directory):
    def write(name, text):
        path = os.path.join(directory, name)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path

    r = run("sim", "--from-strace", write("strace", STRACE))
    check("from strace", r.returncode == 0 and r.stdout ==
          "0.500000 /d/a#1 0 65536\n0.600000 /d/a#1 0 65536\n", r)
    trace = write("trace", r.stdout)
    r = run("sim", "--size", "8M,16M", "--evict", "lru,s3fifo", trace)
    rows = [line.split() for line in r.stdout.splitlines()[2:]]
    check("a row for each", r.returncode == 0 and [row[:3] for row in rows] ==
          [[size, policy, "50.00"] for size in ("8M", "16M")
           for policy in ("lru", "s3fifo")], r)
    r = run("sim", "--advise", trace)
    check("advice", r.returncode == 0 and re.search(
        r"^advice: RACACHE_SIZE=8M RACACHE_EVICT=\w+ ", r.stdout, re.M), r)
    variables = re.search("^advice: (.*)", r.stdout, re.M)[1].split()
    taken = run("config", "--json", **dict(v.split("=") for v in variables))
    check("the advice is accepted", not taken.stderr and
          len(variables) == 4, taken)
    for arguments in ((), ("--size", "1M", trace), ("--evict", "mru", trace),
                      ("--max-order", "10", trace)):
        r = run("sim", *arguments)
        check(f"sim {arguments}", r.returncode == 2 and r.stderr and
              not r.stdout, r)
    for path in ("/no/trace", write("wrong", "0 a 0 1\n0 a x 1\n"),
                 write("empty", "")):
        r = run("sim", path)
        check(f"sim {path}", r.returncode == 1 and not r.stdout and
              r.stderr.count("\n") == 1, r)


def check_bench(directory):
    """What is asked for wrongly is said before anything is made."""
    odd = os.path.join(directory, "100%p:c")
    os.mkdir(odd)
    for size in ("abc", "-1G", "99999999999999999999M", "2T", "31M", "32769K"):
        r = run("bench", "--dir", odd, "--size", size)
        check(f"bench --size {size}", r.returncode == 2 and
              r.stderr.startswith("--size: " + size), r)
    for size, row in ("1024G", "processes-4"), ("1048575M", "threads-4k"):
        r = run("bench", "--dir", odd, "--size", size, "--only", row)
        check(f"bench --size {size}, {row}: not enough memory",
              r.returncode == 2 and not r.stdout and re.fullmatch(
                  rf"racache bench: --size \d+M: {row} needs \d+ MiB of memory, "
                  r"\d+ MiB are available\n", r.stderr), r)
    check("nothing is made", not os.listdir(odd), r)
    r = run("bench", "--dir", odd, "--size", "32M", "--runs", "1", "--only",
            "random-4k", RACACHE_LIBRARY=ENGINE, RACACHE="off")
    check("no statistics", r.returncode == 1 and not r.stdout and re.fullmatch(
        r"racache bench: random-4k, racache: .* no statistics.*\n", r.stderr), r)
    r = run("bench", "--dir", odd, "--size", "32M", "--runs", "1", "--only",
            "random-4k", "fio-256k", "--json", RACACHE_LIBRARY=ENGINE)
    rows = json.loads(r.stdout)["rows"] if r.returncode == 0 else []
    check("statistics below a name with %p", len(rows) == 2, r)
    for row in rows:
        check("calls", "skipped" in row or row["sides"]["racache"]["runs"][0]
              ["racache"]["calls"] > 0, r)
    check("nothing is left", not os.listdir(odd), r)


def check_workload(directory):
    data = os.path.join(directory, "blocks")
    with open(data, "wb") as f:
        f.write(b"x" * 65536)
    for words in (("random", "block=0"), ("stream", "block=0"), ("threads",),
                  ("random", "block=65537"), ("stream", "block=4k")):
        r = run("bench-workload", words[0], "file=" + data, "size=65536",
                *words[1:])
        check(f"bench-workload {words}", r.returncode == 2 and
              "block" in r.stderr, r)
    huge = str(1 << 55)
    r = run("bench-workload", "threads", "file=" + data, "size=" + huge,
            "block=" + huge, "threads=2")
    check("no memory for a buffer", r.returncode == 125 and "mmap" in r.stderr, r)
    workload = [RACACHE, "bench-workload", "threads", "file=" + data,
                "size=65536", "block=65536", "threads=64"]
    for what, limit, words in (  # a thread's stack is of 8 MiB
            ("no thread", "ulimit -s 8192; ulimit -v 300000", workload),
            ("a failure in a thread", "true", [*workload[:4], "size=131072",
                                               *workload[5:]])):
        r = subprocess.run(["sh", "-c", limit + '; exec "$@"', "sh", *words],
                           text=True, capture_output=True, timeout=30,
                           check=False)
        check(what, r.returncode == 125 and
              r.stderr.startswith("racache: ") and r.stderr.count("\n") == 1, r)


def check_full_output():
    """What could not be written was not done."""
    for arguments in (["--help"], ["--version"], ["config"], ["bench", "--help"],
                      ["config", "--json"], ["doctor", "/"], ["bench", "--list"]):
        with open("/dev/full", "w", encoding="ascii") as full:
            r = subprocess.run([RACACHE, *arguments], stdout=full, timeout=30,
                               stderr=subprocess.PIPE, text=True, check=False)
        check(f"{arguments} to a full disk", r.returncode in (1, 2) and
              "cannot write to standard output" in r.stderr, r)


with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
    check_run(scratch)
    check_refusals(scratch)
    check_config()
    check_doctor(scratch)
    check_manual()
    check_stat(scratch)
    check_sim(scratch)
    check_bench(scratch)
    check_workload(scratch)
    check_full_output()
sys.exit(1 if failures else 0)
