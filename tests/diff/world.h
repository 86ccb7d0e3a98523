// SPDX-License-Identifier: MIT
// The differential tester runs one random but repeatable program of file
// calls; its log must be the same with and without the library. World is the
// program's state: generator, files, descriptors, log.
//
// Invariants: every decision depends on the seed and on earlier results only;
// nothing that may differ between two runs (pids, addresses, times, what the
// page cache holds) is ever printed or decided upon.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <sys/types.h>

#include "../lib/hash.h"

namespace diff {

inline constexpr int kErrnoMark = 77;  // errno before every call
inline constexpr size_t kBufferBytes = 4 << 20;
inline constexpr size_t kCanaryBytes = 64;  // never to be written
inline constexpr int kParkedFirst = 3;      // 3..9 are an empty file, so
inline constexpr int kParkedLast = 9;       // that any shell can do <&9
inline constexpr int kFirstKept = 150;      // names of mapped files

struct Mapping {
  char* address;
  size_t bytes;
  int keep;  // an O_PATH descriptor of the file, at kFirstKept or above
  off_t offset;
  bool shared_writable;
};

// What kind of call an entry of the table is; a seed scales each class.
enum class Class { kRead, kMove, kDescriptor, kHint, kChange, kProcess };

struct World {
  uint64_t state = 0;  // of the generator
  std::string dir;
  std::string self;  // path of this program, for the outside writer
  std::vector<std::string> files;
  std::vector<int> fds;
  std::vector<FILE*> streams;
  std::vector<Mapping> maps;
  char* buffer = nullptr;       // kBufferBytes, then a page nobody may touch
  bool stores_allowed = false;  // mapped stores, or SEEK_HOLE: never both
  int writers_percent = 10;     // how many opens are for writing
  int call = 0;

  uint64_t random();
  uint64_t below(uint64_t n) { return random() % n; }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <typename T, size_t N>
  const T& pick(const T (&from)[N]) {
    return from[below(N)];
  }

  int any_fd();   // mostly ours, now and then a bad number
  int file_fd();  // ours, or -1 when there is none
  const std::string& any_file() { return files[below(files.size())]; }
  off_t size_of(int fd);  // by the raw call
  off_t any_offset(off_t size);
  size_t any_length();
  bool private_file(int fd);        // no other process of the machine has it
  bool under_stream(int fd) const;  // closing it would be the program's fault
  void forget(int fd);
  void add(int fd);
};

// One finished call. `extra` is the rest of the line.
__attribute__((format(printf, 2, 3))) void say(const World& w,
                                               const char* format, ...);
// "= 12" or "= -1 EBADF"; on success also tells when errno was changed.
std::string result(long value, int error);
// Result and hash of the bytes returned; checks the canary after `asked`.
std::string bytes_result(const World& w, long value, int error, size_t asked);
void fill(void* data, size_t bytes, uint64_t seed);

// A call that keeps the C library's errno rule: evaluates to the value, and
// leaves errno in `error`.
#define DIFF_CALL(error, expression) \
  [&] {                              \
    errno = kErrnoMark;              \
    auto diff_value = (expression);  \
    error = errno;                   \
    return diff_value;               \
  }()

struct Kind {
  const char* name;
  Class kind;
  unsigned weight;
  void (*run)(World&);
};

// Each file of calls exports its part of the table.
struct Kinds {
  const Kind* first;
  size_t count;
};
Kinds open_kinds();
Kinds read_kinds();
Kinds move_kinds();
Kinds map_kinds();
Kinds change_kinds();
Kinds stream_kinds();
Kinds process_kinds();

// Reads all of `fd` through several hooked calls; used at the end.
void say_contents(World& w, const std::string& file);
// Entry of the outside writer: diff_program --write PATH OFFSET BYTES SEED
int outside_writer(char** arguments);

}  // namespace diff
