// SPDX-License-Identifier: MIT
// coherence_rounds rounds DIR COUNT SEED [LIBRARY]
// coherence_rounds threads DIR SECONDS SEED [LIBRARY]
//
// Why: a cache in one process is only right if every change by any other
// process is seen by the next read. This process, without the library, makes
// the changes and knows the truth (its own reads are the kernel's); the other
// one, under LIBRARY, reads. Also measures how long opens are held up.
#include "writer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace coherence {

void name_of(char (&name)[32], uint32_t file, uint32_t version) {
  snprintf(name, sizeof name, "%u.%u", file, version);
}

pid_t start_reader(const char* library, std::vector<std::string> words, int in,
                   int out) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  if (in >= 0) dup2(in, 0);
  if (out >= 0) dup2(out, 1);
  if (library != nullptr) setenv("LD_PRELOAD", library, 1);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  _exit(127);
}

// Every open for writing goes through here.
int open_timed(Writer& w, const char* name, int flags) {
  auto start = std::chrono::steady_clock::now();
  int fd = open(name, flags, 0644);
  std::chrono::duration<double, std::micro> took =
      std::chrono::steady_clock::now() - start;
  w.held_up.push_back(took.count());
  if (fd < 0) {
    perror(name);
    exit(2);
  }
  return fd;
}

void random_bytes(Writer& w, char* to, size_t n) {
  uint64_t x = next_random(w.seed);
  for (size_t i = 0; i + 8 <= n + 7; i += 8) {
    uint64_t word = next_random(x);
    memcpy(to + i, &word, std::min<size_t>(8, n - i));
  }
}

namespace {

double at_quantile(const std::vector<double>& sorted, double q) {
  return sorted[std::min(sorted.size() - 1, size_t(q * sorted.size()))];
}

Answer ask(Writer& w, Ask what, unsigned file, off_t at = 0,
           uint64_t bytes = 0) {
  Question q = {what, file, w.versions[file], bytes, at};
  Answer a = {};
  if (write(w.to_reader, &q, sizeof q) != sizeof q ||
      read(w.from_reader, &a, sizeof a) != sizeof a) {
    printf("the reader died after: %s\n", w.last_change.c_str());
    exit(1);
  }
  return a;
}

// The next version of a file: a new inode, half the time not in the page
// cache, so that it has to come from the device.
void renew(Writer& w, unsigned file) {
  char name[32];
  if (w.versions[file] != 0) {
    ask(w, Ask::kForget, file);
    name_of(name, file, w.versions[file]);
    unlink(name);
  }
  name_of(name, file, ++w.versions[file]);
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  size_t n = 65536 + w.below(600000);
  random_bytes(w, w.data.data(), n);
  bool bad = write(fd, w.data.data(), n) != ssize_t(n);
  if (w.below(4) == 0) {
    bad |= fdatasync(fd) != 0;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  }
  close(fd);
  if (bad) {
    perror("write");
    exit(2);
  }
  w.changes_left[file] = 2 + w.below(5);
}

Answer truth(Writer& w, int fd, off_t at, uint64_t bytes) {
  ssize_t got = pread(fd, w.data.data(), bytes, at);
  return {got, hash(w.data.data(), got > 0 ? got : 0)};
}

void expect(Writer& w, const char* how, unsigned file, off_t at, Answer got,
            Answer want) {
  ++w.checks;
  if (got.result == want.result && got.hash == want.hash) return;
  if (++w.wrong <= 10)
    printf(
        "WRONG after %s: %s of file %u at %ld: %ld bytes #%016lx, not %ld "
        "#%016lx\n",
        w.last_change.c_str(), how, file, long(at), long(got.result),
        ulong(got.hash), long(want.result), ulong(want.hash));
}

// `fd` was opened before the change, so it is what the reader's is, even if
// the name now belongs to another file.
void check(Writer& w, unsigned file, int fd, off_t changed) {
  off_t near = std::max<off_t>(0, changed - off_t(w.below(6000)));
  Ask by = w.below(2) ? Ask::kPread : Ask::kRead;
  expect(w, "read near the change", file, near, ask(w, by, file, near, 50000),
         truth(w, fd, near, 50000));
  struct stat s = {};
  fstat(fd, &s);
  off_t any = w.below(s.st_size + 1);
  expect(w, "read anywhere", file, any, ask(w, Ask::kPread, file, any, 9000),
         truth(w, fd, any, 9000));
  expect(w, "size", file, 0, ask(w, Ask::kSize, file), {s.st_size, 0});
  if (w.below(4) == 0)
    expect(w, "whole file", file, 0, ask(w, Ask::kPread, file, 0, 4 << 20),
           truth(w, fd, 0, 4 << 20));
}

void check_mapping(Writer& w, unsigned file, int fd, off_t before,
                   off_t changed) {
  struct stat s = {};
  fstat(fd, &s);
  off_t end = std::min(before, s.st_size);  // beyond it there is no page
  if (changed >= end) changed = 0;
  uint64_t n = std::min<off_t>(9000, end - changed);
  if (n == 0) return;
  expect(w, "mapping", file, changed, ask(w, Ask::kMapped, file, changed, n),
         truth(w, fd, changed, n));
}

void check_name(Writer& w, unsigned file, const char* name) {
  int fd = open(name, O_RDONLY);
  expect(w, "new open", file, 0, ask(w, Ask::kReopen, file, 0, 30000),
         truth(w, fd, 0, 30000));
  close(fd);
}

void one_round(Writer& w, unsigned number) {
  unsigned file = w.below(kFiles);
  if (w.changes_left[file] == 0) renew(w, file);
  --w.changes_left[file];
  char name[32];
  name_of(name, file, w.versions[file]);
  bool map = w.below(4) == 0;
  ask(w, map ? Ask::kWarmMap : Ask::kWarm, file);
  int fd = open(name, O_RDONLY);
  struct stat s = {};
  fstat(fd, &s);
  Changes changes = all_changes();
  const Change& change = changes.first[number % changes.count];
  off_t at = 0;
  w.last_change = change.name;
  if (s.st_size > (3 << 20) || !change.make(w, name, s.st_size, &at)) {
    w.last_change = "pwrite (instead)";
    if (!by_pwrite(w, name, s.st_size, &at)) exit(2);
  }
  check(w, file, fd, at);
  if (map) check_mapping(w, file, fd, s.st_size, at);
  check_name(w, file, name);
  // A renamed-over file lives on only in descriptors: give it up.
  if (change.make == by_rename) ask(w, Ask::kForget, file);
  close(fd);
}

void make_source(Writer& w) {
  int fd = open("source", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  random_bytes(w, w.data.data(), kChunk);
  if (write(fd, w.data.data(), kChunk) != ssize_t(kChunk)) exit(2);
  close(fd);
}

}  // namespace

bool report_held_up(Writer& w) {
  std::vector<double>& v = w.held_up;
  if (v.empty()) return true;
  std::sort(v.begin(), v.end());
  double median = at_quantile(v, 0.5);
  printf(
      "open for writing held up, us: p50 %.0f p99 %.0f p99.9 %.0f "
      "max %.0f (%zu opens)\n",
      median, at_quantile(v, 0.99), at_quantile(v, 0.999), v.back(), v.size());
  if (median >= 1000) printf("FAIL: the median is to be below 1000 us\n");
  if (v.back() > 5e6) printf("FAIL: somebody waited for over 5 s\n");
  return median < 1000 && v.back() <= 5e6;
}

int rounds(Writer& w, unsigned count, const char* library) {
  int down[2], up[2];
  if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) return 2;
  w.reader =
      start_reader(library, {"coherence_rounds", "--serve"}, down[0], up[1]);
  close(down[0]);
  close(up[1]);
  w.to_reader = down[1];
  w.from_reader = up[0];
  make_source(w);
  for (unsigned i = 0; i < count; ++i) one_round(w, i);
  close(w.to_reader);
  int status = -1;
  waitpid(w.reader, &status, 0);
  bool quick = report_held_up(w);
  printf("%u rounds, %u checks, %u wrong, reader's status %x\n", count,
         w.checks, w.wrong, status);
  return w.wrong == 0 && status == 0 && quick ? 0 : 1;
}

int write_and_judge(int count, char** arguments) {
  Writer w = {};
  w.seed = strtoull(arguments[4], nullptr, 10);
  void* p = mmap(nullptr, kChunk, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  w.aligned = static_cast<char*>(p);
  if (chdir(arguments[2]) != 0) return 2;
  const char* library = count > 5 ? arguments[5] : nullptr;
  return strcmp(arguments[1], "rounds") == 0
             ? rounds(w, atoi(arguments[3]), library)
             : threads(w, atof(arguments[3]), library);
}

}  // namespace coherence

int main(int count, char** arguments) {
  if (count == 2 && strcmp(arguments[1], "--serve") == 0)
    return coherence::serve_questions();
  if (count == 3 && strcmp(arguments[1], "--threads") == 0)
    return coherence::read_all_the_time(atoi(arguments[2]));
  if (count < 5) {
    fprintf(stderr,
            "usage: coherence_rounds rounds|threads DIR N SEED "
            "[LIBRARY]\n");
    return 2;
  }
  return coherence::write_and_judge(count, arguments);
}
