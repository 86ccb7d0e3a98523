// SPDX-License-Identifier: MIT
// A library that is wrong on purpose, in the way BROKEN names: the self-tests
// preload it, and a test that does not notice it is itself the defect.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPieces = 4096, kPieceBytes = 4096 };
static struct {
  dev_t dev;
  ino_t ino;
  off_t at;
  ssize_t bytes;
  char data[kPieceBytes];
} pieces[kPieces];
static unsigned used;

static int is(const char* what) {
  const char* broken = getenv("BROKEN");
  return broken && !strcmp(broken, what);
}

static ssize_t real_pread(int fd, void* to, size_t n, off_t at) {
  return syscall(SYS_pread64, fd, to, n, at);
}

// stale: the first 4 KiB ever seen at an offset are served for ever.
static ssize_t stale_pread(int fd, char* to, size_t n, off_t at) {
  struct stat s;
  if (fstat(fd, &s) || !S_ISREG(s.st_mode) || n < kPieceBytes || at < 0)
    return real_pread(fd, to, n, at);
  for (unsigned i = 0; i < used; ++i) {
    if (pieces[i].ino != s.st_ino || pieces[i].dev != s.st_dev ||
        pieces[i].at != at)
      continue;
    ssize_t got = real_pread(fd, to, n, at);
    if (got >= pieces[i].bytes) memcpy(to, pieces[i].data, pieces[i].bytes);
    return got;
  }
  ssize_t got = real_pread(fd, to, n, at);
  if (got > 0 && used < kPieces) {
    pieces[used].dev = s.st_dev;
    pieces[used].ino = s.st_ino;
    pieces[used].at = at;
    pieces[used].bytes = got < kPieceBytes ? got : kPieceBytes;
    memcpy(pieces[used].data, to, pieces[used].bytes);
    ++used;
  }
  return got;
}

// memory: what was read is kept for ever; window: half a MiB each time.
static void keep_memory(size_t n) {
  if (n == 0) return;
  char* p =
      mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p != MAP_FAILED) memset(p, 1, n);
}

// lock: a child may inherit it, and then nobody will ever release it.
static volatile char lock;
static ssize_t locked_pread(int fd, void* to, size_t n, off_t at) {
  while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) usleep(20);
  ssize_t got = real_pread(fd, to, n, at);
  __atomic_clear(&lock, __ATOMIC_RELEASE);
  return got;
}

// ring: without a descriptor of the library's own, nothing can be read.
static int ring_lost(void) {
  static int own;
  if (own == 0) own = fcntl(0, F_DUPFD_CLOEXEC, 90);
  return own > 0 && fcntl(own, F_GETFD) < 0;
}

static void after_pread(void* to, ssize_t got, size_t n) {
  if (is("errno") && got > 0) errno = EAGAIN;
  if (is("memory") && got > 0) keep_memory(got);
  if (is("window")) keep_memory(512 << 10);
  if (is("overrun") && got > 0 && got < (ssize_t)n) ((char*)to)[got] = 0;
  if (is("overrun") && got == (ssize_t)n && n) ((char*)to)[n] = 0;
}

ssize_t pread(int fd, void* to, size_t n, off_t at) {
  if (is("stale")) return stale_pread(fd, to, n, at);
  if (is("lock")) return locked_pread(fd, to, n, at);
  if (is("ring") && ring_lost()) return errno = EBADF, -1;
  if (is("short") && n > 65536) n = 65536;
  ssize_t got = real_pread(fd, to, n, at);
  after_pread(to, got, n);
  return got;
}
ssize_t pread64(int fd, void* to, size_t n, off_t at) {
  return pread(fd, to, n, at);
}

// hint: advice takes long, fails as other calls do, and half is not honoured.
int posix_fadvise(int fd, off_t at, off_t n, int advice) {
  if (!is("hint")) {
    int before = errno, failed = syscall(SYS_fadvise64, fd, at, n, advice) != 0;
    int error = failed ? errno : 0;
    errno = before;
    return error;
  }
  usleep(advice == POSIX_FADV_WILLNEED ? 300000 : 0);
  if (advice != POSIX_FADV_SEQUENTIAL)
    syscall(SYS_fadvise64, fd, at, n, advice);
  return advice > POSIX_FADV_NOREUSE ? -1 : 0;
}
int posix_fadvise64(int fd, off_t at, off_t n, int advice) {
  return posix_fadvise(fd, at, n, advice);
}
int madvise(void* at, size_t n, int advice) {
  return is("hint") ? 0 : (int)syscall(SYS_madvise, at, n, advice);
}

// number: a descriptor of the library's among the program's.
// hold: files stay open after close (and keep disk space and mounts busy).
// slow: every open of a file takes 3 ms.
static void after_open(int fd) {
  static int taken;
  if (is("number") && fd > 12 && !taken) taken = dup(fd);
  if (is("hold") && fd >= 0) fcntl(fd, F_DUPFD_CLOEXEC, 700);
  if (is("slow")) usleep(3000);
}
int open(const char* path, int flags, ...) {
  int fd = syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
  after_open(fd);
  return fd;
}
int open64(const char* path, int flags, ...) { return open(path, flags, 0600); }

// offset: positions live in this library, and no child or dup knows them;
// stdin: that of standard input does, and the C library does not know it.
static off_t where[1024];
static int moved(int fd) {
  struct stat s;
  if (is("stdin")) return fd == 0;
  return is("offset") && fd > 9 && fd < 1024 && !fstat(fd, &s) &&
         S_ISREG(s.st_mode);
}
// eof: files end at a million bytes.
static int beyond(int fd) {
  struct stat s;
  return is("eof") && !fstat(fd, &s) && S_ISREG(s.st_mode) &&
         syscall(SYS_lseek, fd, 0, SEEK_CUR) > 1000000;
}
ssize_t read(int fd, void* to, size_t n) {
  if (beyond(fd)) return 0;
  if (!moved(fd)) return syscall(SYS_read, fd, to, n);
  ssize_t got = real_pread(fd, to, n, where[fd]);
  if (got > 0) where[fd] += got;
  return got;
}
off_t lseek(int fd, off_t at, int whence) {
  if (!moved(fd) || whence > SEEK_CUR)
    return syscall(SYS_lseek, fd, at, whence);
  return where[fd] = whence == SEEK_CUR ? where[fd] + at : at;
}
