// SPDX-License-Identifier: MIT
// Streams of the C library over descriptors: their buffering shows the
// position to whoever shares the descriptor, so it has to be the kernel's.
#include "world.h"

#include <algorithm>
#include <cstring>

#include <fcntl.h>
#include <stdio_ext.h>
#include <unistd.h>

extern "C" size_t __fread_chk(void*, size_t, size_t, size_t, FILE*);

namespace diff {
namespace {

constexpr size_t kMostStreams = 4;

// Whether a direct read into the stream's buffer works depends on where
// malloc put it, which is nobody's business here.
bool is_direct(int fd) { return (fcntl(fd, F_GETFL) & O_DIRECT) != 0; }

void close_one(World& w) {
  if (w.streams.empty()) return;
  size_t i = w.below(w.streams.size());
  int fd = fileno(w.streams[i]);
  int got = fclose(w.streams[i]);
  w.streams.erase(w.streams.begin() + i);
  say(w, "fclose(stream %zu of %d) = %d", i, fd, got);
}

void run_fopen(World& w) {
  if (w.streams.size() >= kMostStreams) return close_one(w);
  const std::string& file = w.any_file();
  bool wide = w.chance(50);
  FILE* f = wide ? fopen64(file.c_str(), "r") : fopen(file.c_str(), "re");
  if (f != nullptr) w.streams.push_back(f);
  say(w, "fopen%s(%s) = %d", wide ? "64" : "", file.c_str(),
      f ? fileno(f) : -1);
}

// A stream over a duplicate: both share the position.
void run_fdopen(World& w) {
  if (w.streams.size() >= kMostStreams) return close_one(w);
  int from = w.file_fd();
  int fd = dup(from);
  if (fd < 0) return;
  int flags = fcntl(fd, F_GETFL);
  if ((flags & O_ACCMODE) == O_WRONLY || (flags & (O_PATH | O_NONBLOCK))) {
    close(fd);
    return;
  }
  FILE* f = fdopen(fd, "r");
  if (f != nullptr)
    w.streams.push_back(f);
  else
    close(fd);
  say(w, "fdopen(%d, a duplicate of %d) = %s", fd, from, f ? "stream" : "null");
}

void run_freopen(World& w) {
  if (w.streams.empty()) return run_fopen(w);
  size_t i = w.below(w.streams.size());
  const std::string& file = w.any_file();
  FILE* f = freopen(file.c_str(), "r", w.streams[i]);
  if (f == nullptr)
    w.streams.erase(w.streams.begin() + i);
  else
    w.streams[i] = f;
  say(w, "freopen(%s, stream %zu) = %d", file.c_str(), i, f ? fileno(f) : -1);
}

void run_fread(World& w) {
  if (w.streams.empty()) return run_fopen(w);
  size_t i = w.below(w.streams.size());
  FILE* f = w.streams[i];
  if (is_direct(fileno(f))) return;
  size_t n = std::min<size_t>(w.any_length(), 300000), got;
  unsigned how = w.below(4);
  if (how == 0)
    got = fread_unlocked(w.buffer, 1, n, f);
  else if (how == 1)
    got = __fread_chk(w.buffer, kBufferBytes, 1, n, f);
  else if (how == 2)
    got = fgets(w.buffer, 3000, f) ? strlen(w.buffer) : 0;
  else
    got = fread(w.buffer, 1, n, f);
  int fd = fileno(f);
  say(w, "fread%u(stream %zu, %zu) = %zu #%016lx, eof %d, at %ld, lseek %ld",
      how, i, n, got, hash(w.buffer, got), feof(f), ftell(f),
      long(lseek(fd, 0, SEEK_CUR)));
}

void run_fseek(World& w) {
  if (w.streams.empty()) return run_fopen(w);
  size_t i = w.below(w.streams.size());
  if (is_direct(fileno(w.streams[i]))) return;  // seeking may read as well
  int whence = w.pick({SEEK_SET, SEEK_CUR, SEEK_END});
  long at = whence == SEEK_SET ? long(w.below(200000)) : -long(w.below(3000));
  bool wide = w.chance(40);
  int got = wide ? fseeko64(w.streams[i], at, whence)
                 : fseek(w.streams[i], at, whence);
  say(w, "fseek(stream %zu, %ld, %d) = %d, ftell %ld", i, at, whence, got,
      ftell(w.streams[i]));
}

// The stream has read ahead: a read past it starts where its buffer ends.
void run_fileno(World& w) {
  if (w.streams.empty()) return run_fopen(w);
  size_t i = w.below(w.streams.size());
  if (is_direct(fileno(w.streams[i]))) return;
  int c = fgetc(w.streams[i]), error;
  long got = DIFF_CALL(error, read(fileno(w.streams[i]), w.buffer, 1000));
  say(w, "fgetc(stream %zu) = %d, then read %s #%016lx", i, c,
      result(got, error).c_str(), hash(w.buffer, got > 0 ? got : 0));
}

int read_standard_input(World& w, unsigned how) {
  switch (how) {
    case 0:
      return static_cast<int>(fread(w.buffer, 1, 5000, stdin));
    case 1:
      return fgets(w.buffer, 3000, stdin) != nullptr;
    case 2:
      return getchar();
    case 3:
      return getc_unlocked(stdin);
    default:
      return static_cast<int>(fread_unlocked(w.buffer, 1, 9, stdin));
  }
}

// Redirects its own standard input, as a shell's child does; the stream was
// there before the descriptor under it.
void run_standard_input(World& w) {
  bool again = w.chance(50);
  int from = w.file_fd(), got = -7;
  if (again) {
    close(0);
    got = open(w.any_file().c_str(), O_RDONLY);
  } else if (from < 0 ||
             (fcntl(from, F_GETFL) & (O_PATH | O_NONBLOCK | O_DIRECT)) ||
             (got = dup2(from, 0)) < 0) {
    return;
  }
  ssize_t before = w.chance(50) ? read(0, w.buffer, 700) : 0;
  memset(w.buffer, 0, 5000);
  unsigned how = w.below(5);
  int value = read_standard_input(w, how);
  say(w, "stdin%u on %d, read %zd: %d #%016lx, ftell %ld, lseek %ld", how,
      again ? got : from, before, value, hash(w.buffer, 5000), ftell(stdin),
      long(lseek(0, 0, SEEK_CUR)));
  __fpurge(stdin);
  clearerr(stdin);
  dup2(8, 0);
}

void run_fclose(World& w) { close_one(w); }

constexpr Kind kKinds[] = {
    {"fopen", Class::kDescriptor, 2, run_fopen},
    {"fdopen", Class::kDescriptor, 2, run_fdopen},
    {"freopen", Class::kDescriptor, 1, run_freopen},
    {"fread", Class::kRead, 4, run_fread},
    {"fseek", Class::kMove, 2, run_fseek},
    {"fileno", Class::kRead, 1, run_fileno},
    {"stdin", Class::kRead, 1, run_standard_input},
    {"fclose", Class::kDescriptor, 1, run_fclose},
};

}  // namespace

Kinds stream_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace diff
