// SPDX-License-Identifier: MIT
#include "core/census.h"

#include <fcntl.h>

#include "core/engine.h"
#include "core/text.h"

namespace racache::census {
namespace {

constexpr uint64_t kWorker = 0x10;  // PF_IO_WORKER of <linux/sched.h>

struct Status {
  char state;  // 0: no such thread
  uint64_t flags;
  int exit_code;  // as of wait(2), once it has ended
};

int last_number(const char* text, size_t size) {
  while (size > 0 && text[size - 1] == '\n') --size;
  int number = 0, unit = 1;
  for (; size > 0 && text[size - 1] >= '0' && text[size - 1] <= '9'; --size) {
    number += unit * (text[size - 1] - '0');
    unit *= 10;
  }
  return number;
}

// Of "tid (name) state ppid pgrp session tty tpgid flags ... exit_code". The
// name may contain anything, so its end is looked for from behind.
Status parse(const char* text, size_t size) {
  size_t at = size;
  while (at > 0 && text[at - 1] != ')') --at;
  if (at == 0 || at + 1 >= size) return {0, 0, 0};
  Status status{text[at + 1], 0, last_number(text, size)};
  int spaces = 0;
  for (; at < size && spaces < 7; ++at) spaces += text[at] == ' ';
  for (; at < size && text[at] >= '0' && text[at] <= '9'; ++at) {
    status.flags = status.flags * 10 + static_cast<uint64_t>(text[at] - '0');
  }
  return status;
}

Status status_of(uint64_t tid) {
  TextBuffer<64> path;
  path << "/proc/self/task/" << tid << "/stat";
  const long fd =
      sys::invoke(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (sys::failed(fd)) return {0, 0, 0};
  char text[1100];
  const long n = sys::invoke(SYS_read, fd, text, sizeof text);
  sys::invoke(SYS_close, fd);
  return n > 0 ? parse(text, static_cast<size_t>(n)) : Status{0, 0, 0};
}

bool ended(char state) { return state == 0 || state == 'Z' || state == 'X'; }

bool is_program(const Engine* engine, uint64_t tid) {
  if (engine != nullptr && engine::is_ours(*engine, static_cast<int>(tid))) {
    return false;
  }
  const Status status = status_of(tid);
  return !ended(status.state) && (status.flags & kWorker) == 0;
}

uint64_t number_in(const char* name) {
  uint64_t number = 0;
  for (; *name >= '0' && *name <= '9'; ++name) {
    number = number * 10 + static_cast<uint64_t>(*name - '0');
  }
  return *name == 0 ? number : 0;  // "." and ".."
}

// linux_dirent64: the fields before the name are 19 bytes, the length of the
// whole is at byte 16.
void count_in(const Engine* engine, const char* entries, long size,
              Threads& threads) {
  for (long at = 0; at < size && threads.count < 2;) {
    uint16_t length;
    __builtin_memcpy(&length, entries + at + 16, sizeof length);
    const uint64_t tid = number_in(entries + at + 19);
    if (tid != 0 && is_program(engine, tid)) {
      if (++threads.count == 1) threads.first = static_cast<int>(tid);
    }
    at += length;
  }
}

}  // namespace

Threads program_threads(const Engine* engine) {
  const long fd = sys::invoke(SYS_openat, AT_FDCWD, "/proc/self/task",
                              O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (sys::failed(fd)) return {-1, 0};
  alignas(8) char entries[2048];
  Threads threads{0, 0};
  long size = 0;
  while (threads.count < 2 && (size = sys::invoke(SYS_getdents64, fd, entries,
                                                  sizeof entries)) > 0) {
    count_in(engine, entries, size, threads);
  }
  sys::invoke(SYS_close, fd);
  return size < 0 ? Threads{-1, 0} : threads;
}

Leader leader() {
  const Status status = status_of(static_cast<uint64_t>(sys::getpid()));
  return {ended(status.state), status.exit_code >> 8 & 0xff};
}

}  // namespace racache::census
