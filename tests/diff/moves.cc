// SPDX-License-Identifier: MIT
// Positions, advice, and the calls that move bytes without a buffer of the
// program's (sendfile, splice, copy_file_range), which use the same position.
#include "world.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace diff {
namespace {

void run_lseek(World& w) {
  int fd = w.any_fd(), error;
  off_t size = w.size_of(fd);
  int whence = w.pick({SEEK_SET, SEEK_SET, SEEK_CUR, SEEK_CUR, SEEK_END, 99});
  off_t at = whence == SEEK_SET   ? w.any_offset(size)
             : whence == SEEK_CUR ? off_t(w.below(9000)) - 3000
                                  : off_t(w.below(9000)) - 8000;
  if (whence == SEEK_CUR && w.chance(40)) at = 0;
  unsigned how = w.below(5);
  long got = DIFF_CALL(error, how == 0   ? lseek64(fd, at, whence)
                              : how == 1 ? syscall(SYS_lseek, fd, at, whence)
                                         : lseek(fd, at, whence));
  say(w, "lseek%s(%d, %ld, %d) %s",
      how == 0   ? "64"
      : how == 1 ? " raw"
                 : "",
      fd, at, whence, result(got, error).c_str());
}

// Data and holes move the position too. Where holes lie is only certain for
// files without mapped stores.
void run_seek_hole(World& w) {
  int fd = w.file_fd(), error;
  off_t size = w.size_of(fd);
  off_t at = w.stores_allowed ? size + 5 : w.any_offset(size);
  int whence = w.chance(50) ? SEEK_DATA : SEEK_HOLE;
  long got = DIFF_CALL(error, lseek(fd, at, whence));
  say(w, "lseek(%d, %ld, %s) %s", fd, at,
      whence == SEEK_DATA ? "SEEK_DATA" : "SEEK_HOLE",
      result(got, error).c_str());
}

// What is left behind the position, as the kernel counts it.
void run_left(World& w) {
  int fd = w.any_fd(), left = -7, error;
  long got = DIFF_CALL(error, ioctl(fd, FIONREAD, &left));
  say(w, "ioctl(%d, FIONREAD) %s, %d", fd, result(got, error).c_str(), left);
}

void run_flags(World& w) {
  int fd = w.any_fd(), error;
  int flags = fcntl(fd, F_GETFL);
  int change = w.pick({O_APPEND, O_NONBLOCK, O_NONBLOCK, O_DIRECT, O_NOATIME});
  if (change == O_DIRECT && w.chance(60)) change = 0;
  if (change == O_NONBLOCK && w.size_of(fd) == 0) change = 0;  // a pipe blocks
  long got = DIFF_CALL(error, fcntl(fd, F_SETFL, flags ^ change));
  say(w, "fcntl(%d, F_SETFL, %#o ^ %#o) %s, now %#o", fd, flags, change,
      result(got, error).c_str(), fcntl(fd, F_GETFL));
}

void run_stat(World& w) {
  int fd = w.any_fd(), error;
  struct stat s = {};
  long got = DIFF_CALL(error, fstat(fd, &s));
  say(w, "fstat(%d) %s, %ld bytes, %lu links, mode %o", fd,
      result(got, error).c_str(), long(s.st_size), ulong(s.st_nlink),
      s.st_mode);
}

void run_fadvise(World& w) {
  int fd = w.any_fd(), error;
  off_t at = w.chance(40) ? 0 : w.any_offset(w.size_of(fd));
  off_t n = w.chance(40) ? 0 : off_t(w.any_length()) - w.chance(5) * 99999999;
  int advice = w.chance(5) ? 77 : int(w.below(6));
  unsigned how = w.below(4);
  at = std::max<off_t>(at, 0);  // negative: kernels differ
  long got =
      DIFF_CALL(error, how == 0   ? posix_fadvise64(fd, at, n, advice)
                       : how == 1 ? syscall(SYS_fadvise64, fd, at, n, advice)
                                  : posix_fadvise(fd, at, n, advice));
  say(w, "fadvise%u(%d, %ld, %ld, %d) %s", how, fd, at, n, advice,
      result(got, error).c_str());
}

void run_readahead(World& w) {
  int fd = w.any_fd(), error;
  off_t at = std::max<off_t>(0, w.any_offset(w.size_of(fd)));
  size_t n = w.chance(10) ? 0 : w.any_length();
  long got = DIFF_CALL(error, readahead(fd, at, n));
  say(w, "readahead(%d, %ld, %zu) %s", fd, at, n, result(got, error).c_str());
}

// Reads back what went into a pipe (its descriptors are closed afterwards).
std::string drain(World& w, const int* pair) {
  close(pair[1]);
  size_t n = 0;
  for (ssize_t got; (got = read(pair[0], w.buffer + n, 65536)) > 0; n += got) {
  }
  close(pair[0]);
  char text[48];
  snprintf(text, sizeof text, "%zu bytes #%016lx", n, hash(w.buffer, n));
  return text;
}

bool wide_pipe(int* pair) {
  return pipe(pair) == 0 && fcntl(pair[1], F_SETPIPE_SZ, 1 << 20) > 0;
}

void run_sendfile(World& w) {
  int fd = w.file_fd(), error, pair[2];
  if (!wide_pipe(pair)) return;
  size_t n = std::min<size_t>(w.any_length(), 200000);
  off_t at = w.any_offset(w.size_of(fd));
  off_t* where = w.chance(60) ? nullptr : &at;
  bool wide = w.chance(40);
  off_t from = where ? at : -1;
  long got = DIFF_CALL(error, wide ? sendfile64(pair[1], fd, where, n)
                                   : sendfile(pair[1], fd, where, n));
  std::string out = drain(w, pair);
  say(w, "sendfile%s(%d, %ld, %zu) %s, next %ld, %s", wide ? "64" : "", fd,
      from, n, result(got, error).c_str(), where ? at : -1, out.c_str());
}

void run_splice(World& w) {
  int fd = w.file_fd(), error, pair[2];
  if (!wide_pipe(pair)) return;
  size_t n = std::min<size_t>(w.any_length(), 200000);
  off_t at = w.any_offset(w.size_of(fd));
  off_t* where = w.chance(60) ? nullptr : &at;
  off_t from = where ? at : -1;
  long got = DIFF_CALL(error, splice(fd, where, pair[1], nullptr, n, 0));
  std::string out = drain(w, pair);
  say(w, "splice(%d, %ld, %zu) %s, next %ld, %s", fd, from, n,
      result(got, error).c_str(), where ? at : -1, out.c_str());
}

// Into a fresh file, so that the copy itself can be looked at.
void run_copy(World& w) {
  int fd = w.file_fd(), error;
  int out = open("copy", O_RDWR | O_CREAT | O_TRUNC, 0600);
  size_t n = w.any_length();
  off_t at = w.any_offset(w.size_of(fd));
  off_t* where = w.chance(60) ? nullptr : &at;
  off_t from = where ? at : -1;
  long got = DIFF_CALL(error, copy_file_range(fd, where, out, nullptr, n, 0));
  long here = lseek(out, 0, SEEK_CUR);
  ssize_t back = pread(out, w.buffer, kBufferBytes - 1, 0);
  close(out);
  say(w, "copy_file_range(%d, %ld, %zu) %s, next %ld, at %ld, %zd #%016lx", fd,
      from, n, result(got, error).c_str(), where ? at : -1, here, back,
      hash(w.buffer, back > 0 ? back : 0));
}

// Record locks, with ranges counted from the position too. They live until
// any descriptor of the file is closed, ours or a library's.
void run_lock(World& w) {
  int fd = w.any_fd(), error;
  if (fd >= 0 && !w.private_file(fd)) return;
  struct flock l = {};
  l.l_type = w.pick({short(F_RDLCK), short(F_WRLCK), short(F_UNLCK)});
  l.l_whence = w.pick({short(SEEK_SET), short(SEEK_CUR), short(SEEK_END)});
  l.l_start = off_t(w.below(3000)) - 500;
  l.l_len = off_t(w.below(500));
  bool open_file = w.chance(20);
  long got = DIFF_CALL(error, fcntl(fd, open_file ? F_OFD_SETLK : F_SETLK, &l));
  say(w, "fcntl(%d, %s, %d, %d, %ld, %ld) %s", fd,
      open_file ? "F_OFD_SETLK" : "F_SETLK", l.l_type, l.l_whence, l.l_start,
      l.l_len, result(got, error).c_str());
}

void run_flock(World& w) {
  int fd = w.any_fd(), error;
  if (fd >= 0 && !w.private_file(fd)) return;
  int how = w.pick({LOCK_SH, LOCK_EX, LOCK_UN}) | LOCK_NB;
  long got = DIFF_CALL(error, flock(fd, how));
  say(w, "flock(%d, %d) %s", fd, how, result(got, error).c_str());
}

constexpr Kind kKinds[] = {
    {"lseek", Class::kMove, 14, run_lseek},
    {"seek_hole", Class::kMove, 2, run_seek_hole},
    {"fionread", Class::kMove, 1, run_left},
    {"setfl", Class::kMove, 1, run_flags},
    {"fstat", Class::kMove, 2, run_stat},
    {"fadvise", Class::kHint, 5, run_fadvise},
    {"readahead", Class::kHint, 4, run_readahead},
    {"sendfile", Class::kMove, 2, run_sendfile},
    {"splice", Class::kMove, 2, run_splice},
    {"copy_file_range", Class::kMove, 2, run_copy},
    {"setlk", Class::kMove, 2, run_lock},
    {"flock", Class::kMove, 1, run_flock},
};

}  // namespace

Kinds move_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace diff
