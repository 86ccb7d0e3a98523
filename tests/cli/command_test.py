# SPDX-License-Identifier: MIT
"""The racache command as users meet it: what it starts gets the library, its
own arguments and its own exit status; and it says so when it cannot help."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

RACACHE, LIBRARY, STATIC = sys.argv[1:4]
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
    check("exit status", r.returncode == ("FAIL" in verdicts.values()), r)
    check("nothing is left behind", not [f for f in os.listdir(directory)
          if "doctor" in f], r)
    r = run("doctor", "--dir", "/proc")
    check("/proc cannot be cached", r.returncode == 1 and "FAIL" in r.stdout, r)
    r = run("doctor", "--dir", "/no/such/directory")
    check("no directory", r.returncode == 1, r)


with tempfile.TemporaryDirectory() as scratch:
    check_run(scratch)
    check_refusals(scratch)
    check_config()
    check_doctor(scratch)
sys.exit(1 if failures else 0)
