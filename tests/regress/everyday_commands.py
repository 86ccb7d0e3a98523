#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Everyday commands do the same with the library as without.

Why: cp -p, touch, ls -alt and editors failed, or succeeded with status 1,
under interposers that got dup2, timestamps or relative paths wrong. Output,
status and resulting files are compared. (UnifyFS 729, pmemfile 142 and 181,
FanStore 1.)
"""
import os
import shutil
import subprocess

from support import check, plain_environment, verdict

COMMANDS = """
cp -pr s t && diff -r s t && stat -c '%Y %a %s' t/text/* t/big | sort
touch s/fresh s/big && ls s | wc -l
touch -d @1000000 s/big && touch -r s/big s/x && stat -c '%s %Y' s/x
ls -alt s/text | wc -l
cat s/text/* | sort | uniq -c | sort -rn | head -40
cp --sparse=always s/sparse q && cmp s/sparse q && wc -c < q
cp --reflink=never s/big q && cmp q s/big && dd if=q bs=1M status=none | cksum
tar cf - s | (mkdir u && cd u && tar xf -) && diff -r s u/s
tar cf a.tar s && tar tf a.tar | sort | cksum && tar df a.tar
install -m 640 s/big i && stat -c '%a %s' i
mv s/big s/moved && sha1sum s/moved && cat s/moved s/moved | cksum
ln s/big h && rm s/big && sha1sum < h
split -n 5 s/big p. && cat p.* | cmp - s/big
split -l 100 s/text/long l. && ls l.* | wc -l && cat l.* | cmp - s/text/long
find s -type f | sort | xargs sha1sum
dd if=s/big of=o bs=777 seek=3 skip=2 conv=notrunc status=none && sha1sum o
head -c 999 s/big > z; tail -c 77777 s/big >> z; sha1sum z; truncate -s 90 z; tail -c 50 z | sha1sum
for i in 1 2 3 4 5 6; do echo line $i >> log; tail -n 2 log; wc -c < log; done
sed -i s/the/THE/g s/text/* && grep -c THE s/text/* | sort
awk '{ n += length($0) } END { print n }' s/text/*
perl -ne 'print if /lo/; END { print tell(STDIN), "\\n" }' < s/text/long | sha1sum
gzip -nk s/big && zcat s/big.gz | cmp - s/big && stat -c %s s/big.gz
xz -0 -k s/text/long && xzcat s/text/long.xz | cmp - s/text/long
while read -r word rest; do echo "$word" | wc -c; done < s/text/short | sha1sum
{ head -n 3; read -r x; echo "$x"; cat; } < s/text/short | sha1sum
{ dd bs=100 count=2 status=none; dd bs=100 count=1 status=none; tail -c 10; } < s/big | cksum
cmp s/big s/sparse; diff s/text/short s/text/long | sha1sum
comm -12 s/text/short s/text/long | wc -l; paste s/text/short s/text/short | md5sum
echo 'a new line' > s/text/short && cat s/text/short && wc -l s/text/*
sort -o s/text/long s/text/long && sha1sum s/text/long
ed -s s/text/short <<< $'1d\\nw\\nq' 2>&1; sha1sum s/text/short
mkdir -p d/e && cd d/e && cat ../../s/text/short | cksum && cd - > /dev/null && rmdir d/e d
bash -c 'exec 5< s/text/long; read -u 5 a; exec 6<&5; read -u 6 b; (read -u 5 c; echo "$c"); read -u 5 d; echo "$a/$b/$d"'
tac s/text/long | sha1sum; od -A d -t x1 s/big | tail -n 3; file -b s/text/short || true
git init -q g && cp -r s/text g && cd g && git add . && git -c user.name=a -c user.email=b commit -qm x && git ls-files -s | sha1sum; git status --short; git fsck --no-progress; cd ..; rm -rf g
printf '#include <stdio.h>\\nint main(void) { puts("built"); }\\n' > c.c && gcc -c -o c.o c.c && ar rcD l.a c.o && gcc -o c l.a && ./c; rm -f c c.o l.a
""".strip().splitlines()


def make_source():
    os.makedirs("source/text")
    words = "the library of long lines reads whole files and logs lots".split()
    for name, count in (("short", 200), ("long", 9000), ("few", 3)):
        with open("source/text/" + name, "w") as f:
            for i in range(count):
                f.write("%s %d %s\n" % (words[i % 11], i * 7919 % 1000,
                                        words[i * 3 % 11]))
    with open("source/big", "wb") as f:
        f.write(os.urandom(2_500_001))
    with open("source/sparse", "wb") as f:
        f.truncate(7_000_000)


def run(command, where, env):
    shutil.rmtree(where, ignore_errors=True)
    os.mkdir(where)
    shutil.copytree("source", where + "/s", copy_function=shutil.copy2)
    try:
        p = subprocess.run(["bash", "-c", command], cwd=where, env=env,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=60)
        return p.returncode, p.stdout
    except subprocess.TimeoutExpired:
        return "hangs", b""


make_source()
without = plain_environment()
for variable in (without, os.environ):
    variable["LC_ALL"] = "C"
for line in COMMANDS:
    want = run(line, "A", without)
    got = run(line, "B", dict(os.environ))
    check(got == want, "%s\n  kernel:  %s %r\n  library: %s %r" %
          (line, want[0], want[1][-200:], got[0], got[1][-200:]))
    same = subprocess.run(["diff", "-r", "A", "B"], env=without,
                          capture_output=True)
    check(same.returncode == 0, "%s leaves other files:\n  %r" %
          (line, same.stdout[:300]))
print("%d commands" % len(COMMANDS))
verdict()
