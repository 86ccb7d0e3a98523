// SPDX-License-Identifier: MIT
// The writing half of the coherence tests: state, and the changes it knows.
#pragma once

#include "rounds.h"

#include <string>
#include <vector>

namespace coherence {

inline constexpr size_t kChunk = 1 << 20;

struct Writer {
  uint64_t seed;
  int to_reader = -1, from_reader = -1;
  pid_t reader = -1;
  uint32_t versions[kFiles] = {};
  unsigned changes_left[kFiles] = {};
  std::vector<double> held_up;  // microseconds, one an open for writing
  std::vector<char> data = std::vector<char>(8 << 20);
  char* aligned = nullptr;
  unsigned wrong = 0, checks = 0;
  std::string last_change;

  uint64_t below(uint64_t n) { return next_random(seed) % n; }
};

void name_of(char (&name)[32], uint32_t file, uint32_t version);
void random_bytes(Writer& w, char* to, size_t n);
// Opens for writing, and notes how long that took. Ends the test on failure.
int open_timed(Writer& w, const char* name, int flags);
// Starts this program again, under `library` unless it is null.
pid_t start_reader(const char* library, std::vector<std::string> words, int in,
                   int out);
// Prints the quantiles; false if opens were held up for too long.
bool report_held_up(Writer& w);

struct Change {
  const char* name;
  // Returns false if this file system cannot do it.
  bool (*make)(Writer&, const char* file, off_t size, off_t* at);
};

struct Changes {
  const Change* first;
  size_t count;
};
Changes all_changes();
bool by_pwrite(Writer& w, const char* file, off_t size, off_t* at);
bool by_rename(Writer& w, const char* file, off_t size, off_t* at);

int rounds(Writer& w, unsigned count, const char* library);
int threads(Writer& w, double seconds, const char* library);

}  // namespace coherence
