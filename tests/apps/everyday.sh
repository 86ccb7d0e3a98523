#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Why: the library may be preloaded into a whole shell session. Each command
# line below runs twice in equal folders, without and with the library; what
# it prints, its exit status and the files it leaves must be the same.
. "$(dirname "$0")/../lib/app.sh"
need git tar sed grep perl python3 xz gzip awk diff

# The folder that every command line starts from: texts, a binary file, a
# sparse one, an empty one, links, names with blanks.
make_source() {
  mkdir -p source/texts "source/a b"
  cp "$root"/core/*.h "$root"/core/*.cc source/texts/ || exit 1
  python3 - <<'PYTHON'
import random
numbers = random.Random(11)
with open("source/binary", "wb") as f:
    f.write(numbers.randbytes(3_000_001))
with open("source/lines", "w") as f:
    f.writelines(f"{numbers.randrange(10**9)} line {i}\n" for i in range(60000))
PYTHON
  truncate -s 5000000 source/sparse
  printf end >>source/sparse
  : >source/empty
  printf 'one line, no newline' >"source/a b/short"
  ln -s ../binary source/texts/link
  ln source/lines source/hard
}

# Every name under $1 with type, mode, links, and content.
describe() {
  (cd "$1" && find . -printf '%P %y %m %n %l\n' | sort &&
    find . -type f -print0 | sort -z | xargs -0r sha256sum)
}

# $1: the folder; $2: the preload list or nothing; $3: the command line.
one_side() {
  cp -a source "$1"
  (
    cd "$1" || exit 1
    export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 TZ=UTC
    if [ "$2" ]; then
      export LD_PRELOAD=$2 RACACHE_MIN_FILE=1 \
        RACACHE_STATS="json:$work/statistics/%c.%p.json"
    fi
    exec timeout 100 bash -c "$3"
  ) >"$1.out" 2>&1 </dev/null
  echo "status $?" >>"$1.out"
  describe "$1" >"$1.files"
}

count=0
same() {
  count=$((count + 1))
  rm -rf side
  one_side side '' "$1"
  mv side.out plain.out
  mv side.files plain.files
  rm -rf side
  one_side side "$library" "$1"
  cmp -s plain.out side.out ||
    { fail "output of: $1"; diff plain.out side.out | head -n 6; }
  cmp -s plain.files side.files ||
    { fail "files of: $1"; diff plain.files side.files | head -n 6; }
}

make_source
mkdir statistics

# Copies
same 'cp -p lines copy && stat -c "%s %Y" copy && cmp lines copy'
same 'cp -a . ../side.copy && diff -r . ../side.copy; rm -rf ../side.copy'
same 'cp --sparse=always sparse s2 && cmp sparse s2'
same 'cp binary b2 && printf changed | dd of=b2 conv=notrunc bs=1 seek=70000 \
  status=none && cat b2 | sha256sum && cmp binary b2'
same 'dd if=binary of=out bs=12345 skip=7 count=99 2>/dev/null; sha256sum out'
same 'dd if=binary bs=4096 iflag=direct 2>/dev/null | sha256sum'
same 'cat binary lines sparse empty | sha256sum; cat <binary >c; cmp c binary'
same 'install -m 640 lines installed && mv installed moved && stat -c %a moved'
same 'split -n 5 binary part. && cat part.* | cmp - binary'
same 'head -c 100001 binary | tail -c 5 | od -c; tail -n 3 lines; tail -c +9 hard | wc'

# Archives and compression
same 'tar cf a.tar --sort=name --mtime=@0 texts lines && tar tf a.tar && mkdir x &&
  tar xf a.tar -C x && diff -r texts x/texts && sha256sum a.tar'
same 'tar cJf a.txz lines && mkdir x && tar xJf a.txz -C x && cmp lines x/lines'
same 'xz -k -1 lines && xz -dc lines.xz | cmp - lines && xz -t lines.xz'
same 'gzip -nk binary && gzip -dc binary.gz | cmp - binary; zcat binary.gz | wc -c'

# Text
same 'grep -rn include texts | sort; grep -c line lines; grep -q xyzzy lines'
same 'grep -c . sparse binary'
same 'sort lines | sha256sum; sort -n -S 1M lines | tail -n 2; sort -u -o hard hard'
same 'wc -l lines texts/*; uniq -c lines | tail -n 1; comm -12 lines hard | wc -l'
same 'sed -i s/line/row/ lines && head -n 2 lines hard && sed -n 5,7p lines'
same 'awk "{ n += \$1 } END { print n }" lines; cut -d" " -f3 lines | tail -n 1'
same 'diff texts/cache.h texts/evict.h; cmp lines binary; tr a-z A-Z <lines | cksum'
same '{ read -r a; echo "$a"; head -n 2; read -r b; echo "$b"; } <lines'
same 'while read -r a b c; do echo "$c"; done <texts/cache.h | sha256sum'
same 'find . -type f | sort | xargs sha256sum; ls -la --time-style=+ texts'

# Programs that change what they read
same 'for i in 1 2 3 4; do echo $i >>log; tail -n 1 log; wc -c <log; done'
same 'perl -pi -e "s/line/rang/" lines; tail -n 1 lines; perl -ne "print if /rang 5\$/" lines'
same 'truncate -s 1000 lines; wc lines; truncate -s 5000 lines; cksum lines hard'
# truncate(1) opens without patience: a lease that outlives its process shows.
same 'for i in $(seq 30); do cat lines | wc -c; truncate -s -1 lines; done; cksum hard'
same 'for i in $(seq 30); do cat lines | wc -c
  env -u LD_PRELOAD truncate -s -1 lines; done; cksum hard'
same 'cat lines >/dev/null; echo more >>lines; tail -n 1 lines; cksum lines'
same 'touch -d @1000 lines && stat -c "%X %Y" lines && touch new && rm new lines && ls'
same 'python3 -c "
import mmap, os, shutil
data = open(\"binary\", \"rb\").read()
with open(\"binary\", \"r+b\") as f:
    f.seek(1 << 20); f.write(b\"changed\"); f.flush()
    m = mmap.mmap(f.fileno(), 0); m[5:8] = b\"map\"; m.flush()
again = open(\"binary\", \"rb\").read()
print([i for i in range(len(data)) if data[i] != again[i]])
shutil.copy2(\"lines\", \"l2\"); print(sum(map(len, open(\"l2\"))))
fd = os.open(\"lines\", os.O_RDONLY); print(os.pread(fd, 30, 1000), os.read(fd, 9))
print(os.lseek(fd, 0, os.SEEK_CUR), os.lseek(fd, 0, os.SEEK_END))"'
same 'python3 -m zipfile -c z.zip texts lines && python3 -m zipfile -l z.zip |
  cut -c 1-40 && python3 -m zipfile -t z.zip; rm z.zip'

# Git writes, maps and reads files of its own all the time
same 'export GIT_AUTHOR_DATE=@1000000000Z GIT_COMMITTER_DATE=@1000000000Z
  git init -q r && cd r && cp -r ../texts ../binary . && git add . &&
  git -c user.name=n -c user.email=e commit -qm one && sed -i 3d texts/cache.h &&
  git diff --stat && git status -s && git -c user.name=n -c user.email=e \
  commit -qam two && git gc -q && git log --format=%H -p | sha256sum &&
  git fsck 2>&1 && cd .. && git clone -q r r2 && diff -r r/texts r2/texts;
  rm -rf r r2'
if command -v g++ >/dev/null; then
  same 'echo "int f(); int main() { return f(); }" >m.c; echo "int f() {
    return 3; }" >f.c; gcc -c m.c f.c && ar rcD l.a f.o && gcc m.o l.a -o m
    ./m; echo $?; rm -f m.o f.o l.a m'
fi
if command -v sqlite3 >/dev/null; then
  same 'sqlite3 d "create table t(a, b); with recursive n(i) as (select 1 union
    all select i + 1 from n where i < 30000) insert into t select i, hex(i)
    from n; create index x on t(b);" && sqlite3 d "select count(*), sum(a) from
    t; select a from t where b = hex(777); pragma integrity_check;" && sqlite3 d \
    "update t set b = 1 where a % 3 = 0; vacuum; select sum(b) from t;"'
fi

files=(statistics/*.json)
[ -e "${files[0]}" ] && hits=$(total reads.hits "${files[@]}") || hits=0
echo "$count command lines, $hits reads served from the cache"
[ "$hits" -gt 0 ] || fail "the cache served nothing"
finish
