// SPDX-License-Identifier: MIT
// All forms of read, each by its own symbol: plain, LFS, fortified, vectored,
// positioned, through syscall(2), from a signal handler, from another thread,
// into memory that ends early.
#include "world.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

extern "C" {
ssize_t __read_chk(int, void*, size_t, size_t);
ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void*, size_t, off64_t, size_t);
}

namespace diff {
namespace {

constexpr size_t kPage = 4096;

// The canary sits right behind what may be written.
void set_canary(World& w, size_t asked) {
  size_t room = kBufferBytes - asked;
  memset(w.buffer + asked, 0x5a, std::min(room, kCanaryBytes));
}

ssize_t read_as(unsigned how, int fd, char* to, size_t n) {
  switch (how) {
    case 0:
      return read(fd, to, n);
    case 1:
      return __read_chk(fd, to, n, kBufferBytes);
    default:
      return syscall(SYS_read, fd, to, n);
  }
}
const char* const kReadNames[] = {"read", "__read_chk", "syscall read"};

void run_read(World& w) {
  int fd = w.any_fd(), error;
  size_t n = w.any_length();
  static const unsigned kHow[] = {0, 0, 0, 1, 1, 2};
  unsigned how = w.pick(kHow);
  set_canary(w, n);
  long got = DIFF_CALL(error, read_as(how, fd, w.buffer, n));
  say(w, "%s(%d, %zu) %s", kReadNames[how], fd, n,
      bytes_result(w, got, error, n).c_str());
}

ssize_t pread_as(unsigned how, int fd, char* to, size_t n, off_t at) {
  switch (how) {
    case 0:
      return pread(fd, to, n, at);
    case 1:
      return pread64(fd, to, n, at);
    case 2:
      return __pread_chk(fd, to, n, at, kBufferBytes);
    case 3:
      return __pread64_chk(fd, to, n, at, kBufferBytes);
    default:
      return syscall(SYS_pread64, fd, to, n, at);
  }
}
const char* const kPreadNames[] = {"pread", "pread64", "__pread_chk",
                                   "__pread64_chk", "syscall pread64"};

void run_pread(World& w) {
  int fd = w.any_fd(), error;
  size_t n = w.any_length();
  off_t at = w.any_offset(w.size_of(fd));
  unsigned how = w.below(5);
  set_canary(w, n);
  long got = DIFF_CALL(error, pread_as(how, fd, w.buffer, n, at));
  say(w, "%s(%d, %zu, %ld) %s", kPreadNames[how], fd, n, at,
      bytes_result(w, got, error, n).c_str());
}

// The same range thrice, in small steps: the second and third are hits.
void run_pread_again(World& w) {
  int fd = w.file_fd(), error;
  off_t at = w.any_offset(w.size_of(fd));
  for (int i = 0; i < 3; ++i) {
    size_t n = 4096 + i;
    set_canary(w, n);
    long got = DIFF_CALL(error, pread(fd, w.buffer, n, at + i));
    say(w, "pread(%d, %zu, %ld) %s", fd, n, at + i,
        bytes_result(w, got, error, n).c_str());
  }
}

// A run of equal reads, as a scan of a file does.
void run_scan(World& w) {
  int fd = w.file_fd(), error;
  size_t n = w.pick({size_t(512), kPage, size_t(5000), size_t(65536)});
  for (int i = 0; i < 12; ++i) {
    set_canary(w, n);
    long got = DIFF_CALL(error, read(fd, w.buffer, n));
    say(w, "scan read(%d, %zu) %s", fd, n,
        bytes_result(w, got, error, n).c_str());
    if (got <= 0) break;
  }
}

// Pieces that lie one behind the other, so that one hash covers them.
int make_pieces(World& w, iovec* v, size_t* total) {
  int count = static_cast<int>(w.below(6));
  *total = 0;
  for (int i = 0; i < count; ++i) {
    v[i].iov_len = std::min<size_t>(w.any_length(), 400000);
    v[i].iov_base = w.buffer + *total;
    *total += v[i].iov_len;
  }
  set_canary(w, *total);
  return count;
}

void run_readv(World& w) {
  int fd = w.any_fd(), error;
  iovec v[6];
  size_t total;
  int count = make_pieces(w, v, &total);
  bool raw = w.chance(20);
  long got = DIFF_CALL(
      error, raw ? syscall(SYS_readv, fd, v, count) : readv(fd, v, count));
  say(w, "%s(%d, %d pieces of %zu) %s", raw ? "syscall readv" : "readv", fd,
      count, total, bytes_result(w, got, error, total).c_str());
}

void run_preadv(World& w) {
  int fd = w.any_fd(), error;
  iovec v[6];
  size_t total;
  int count = make_pieces(w, v, &total);
  off_t at = w.any_offset(w.size_of(fd));
  bool wide = w.chance(50);
  long got = DIFF_CALL(
      error, wide ? preadv64(fd, v, count, at) : preadv(fd, v, count, at));
  say(w, "%s(%d, %d pieces of %zu, %ld) %s", wide ? "preadv64" : "preadv", fd,
      count, total, at, bytes_result(w, got, error, total).c_str());
}

void run_preadv2(World& w) {
  int fd = w.any_fd(), error;
  iovec v[6];
  size_t total;
  int count = make_pieces(w, v, &total);
  off_t at = w.chance(35) ? -1 : w.any_offset(w.size_of(fd));
  int flags = w.pick({0, 0, 0, 0, 1 /* HIPRI */, 0x40000000, 0x2, 0x80});
  if (flags == 1 || flags == 0x80) flags = 0;  // depend on the device
  bool wide = w.chance(50);
  long got = DIFF_CALL(error, wide ? preadv64v2(fd, v, count, at, flags)
                                   : preadv2(fd, v, count, at, flags));
  say(w, "%s(%d, %d pieces of %zu, %ld, %#x) %s",
      wide ? "preadv64v2" : "preadv2", fd, count, total, at, flags,
      bytes_result(w, got, error, total).c_str());
}

// RWF_NOWAIT may refuse or stop early; what it returns must be the truth.
void run_nowait(World& w) {
  int fd = w.file_fd();
  off_t at = std::max<off_t>(0, w.any_offset(w.size_of(fd)));
  const size_t n = 20000;
  char* truth = w.buffer + (1 << 20);
  iovec v = {w.buffer, n};
  errno = 0;
  ssize_t got = preadv2(fd, &v, 1, at, 8 /* RWF_NOWAIT */);
  int error = errno;
  ssize_t all = syscall(SYS_pread64, fd, truth, n, at);
  bool right = got < 0 ? error == EAGAIN || error == EOPNOTSUPP || all < 0
                       : got <= all && !memcmp(truth, w.buffer, got) &&
                             (got > 0 || all == 0);
  say(w, "preadv2(%d, NOWAIT, %ld) %s", fd, at, right ? "valid" : "WRONG");
}

// The buffer ends `room` bytes before an inaccessible page.
void run_fault(World& w) {
  int fd = w.file_fd(), error;
  size_t room = w.pick(
      {size_t(0), size_t(1), size_t(100), kPage, size_t(5000), size_t(70000)});
  size_t n = room + w.pick({size_t(1), kPage, size_t(9000)});
  char* to = w.buffer + kBufferBytes - room;
  memset(to, 0, room);
  bool positioned = w.chance(50);
  off_t at = w.any_offset(w.size_of(fd));
  long got =
      DIFF_CALL(error, positioned ? pread(fd, to, n, at) : read(fd, to, n));
  // Which of its two reasons the kernel gives for refusing a direct read
  // depends on the moment.
  const bool direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
  const bool refused = got < 0 && (error == EINVAL || error == EFAULT);
  say(w, "%s(%d, %zu of which %zu can be written, %ld) %s #%016lx",
      positioned ? "pread" : "read", fd, n, room, positioned ? at : 0,
      direct && refused ? "refused" : result(got, error).c_str(),
      hash(to, got > 0 ? got : 0));
}

// A handler that reads, on a stack of its own.
World* handler_world;
int handler_fd;
void read_in_handler(int) {
  ssize_t got = pread(handler_fd, handler_world->buffer, 4096, 1);
  ssize_t more = read(handler_fd, handler_world->buffer + 8192, 100);
  say(*handler_world, "in handler: %zd #%016lx, %zd #%016lx", got,
      hash(handler_world->buffer, got > 0 ? got : 0), more,
      hash(handler_world->buffer + 8192, more > 0 ? more : 0));
}

void run_handler(World& w) {
  static char stack[32768];
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  handler_world = &w;
  handler_fd = w.any_fd();
  struct sigaction action = {};
  action.sa_handler = read_in_handler;
  action.sa_flags = w.chance(50) ? SA_ONSTACK : 0;
  sigaction(SIGUSR1, &action, nullptr);
  raise(SIGUSR1);
}

struct ThreadRead {
  World* w;
  int fd;
};
void* read_in_thread(void* pointer) {
  auto* job = static_cast<ThreadRead*>(pointer);
  int error;
  set_canary(*job->w, 5000);
  long got = DIFF_CALL(error, read(job->fd, job->w->buffer, 5000));
  say(*job->w, "in thread: read(%d, 5000) %s", job->fd,
      bytes_result(*job->w, got, error, 5000).c_str());
  set_canary(*job->w, 9000);
  got = DIFF_CALL(error, pread64(job->fd, job->w->buffer, 9000, 123));
  say(*job->w, "in thread: pread64(%d, 9000, 123) %s", job->fd,
      bytes_result(*job->w, got, error, 9000).c_str());
  return nullptr;
}

void run_thread(World& w) {
  ThreadRead job = {&w, w.any_fd()};
  pthread_t thread;
  if (pthread_create(&thread, nullptr, read_in_thread, &job) != 0) return;
  pthread_join(thread, nullptr);
}

constexpr Kind kKinds[] = {
    {"read", Class::kRead, 14, run_read},
    {"pread", Class::kRead, 14, run_pread},
    {"again", Class::kRead, 5, run_pread_again},
    {"scan", Class::kRead, 4, run_scan},
    {"readv", Class::kRead, 5, run_readv},
    {"preadv", Class::kRead, 5, run_preadv},
    {"preadv2", Class::kRead, 6, run_preadv2},
    {"nowait", Class::kRead, 1, run_nowait},
    {"fault", Class::kRead, 2, run_fault},
    {"handler", Class::kRead, 1, run_handler},
    {"thread", Class::kRead, 1, run_thread},
};

}  // namespace

Kinds read_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace diff
