// SPDX-License-Identifier: MIT
// diff_program SEED CALLS DIR [kinds to leave out, by commas]
//
// Why: only a comparison call by call shows that a cached read differs from
// the kernel's in a return value, an errno or a position. run_diff.py runs
// this program with and without the library and compares what it prints.
#include "world.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace diff {
namespace {

constexpr off_t kSizes[] = {0,       1,       511,     4095,   4096,   4097,
                            9000,    65535,   65536,   65537,  131072, 200000,
                            2097151, 2097152, 2097153, 5000001};

// One program's share of each class of calls, in percent of the table's.
struct Shares {
  unsigned change, process;
};

void make_files(World& w) {
  bool cold = w.chance(25);
  size_t count = 3 + w.below(4);
  for (size_t i = 0; i < count; ++i) {
    off_t size = w.pick(kSizes);
    std::string name = "f" + std::to_string(i);
    int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<char> bytes(size);
    fill(bytes.data(), size, w.random());
    if (write(fd, bytes.data(), size) != size) _exit(98);
    if (w.chance(10)) {  // a hole at the end
      if (ftruncate(fd, size + 20000) != 0) _exit(98);
    }
    if (cold) {
      fdatasync(fd);
      posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    close(fd);
    w.files.push_back(name);
  }
}

void park_numbers() {
  for (int fd = kParkedFirst; fd <= kParkedLast; ++fd) {
    int parked = open("parked", O_RDONLY | O_CREAT, 0600);
    if (parked != fd) {
      dup2(parked, fd);
      if (parked > kParkedLast) close(parked);
    }
  }
}

void make_buffer(World& w) {
  const size_t page = 4096;
  void* p = mmap(nullptr, kBufferBytes + page, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) _exit(98);
  w.buffer = static_cast<char*>(p);
  if (mprotect(w.buffer + kBufferBytes, page, PROT_NONE) != 0) _exit(98);
}

bool left_out(const char* list, const char* name) {
  size_t n = strlen(name);
  for (const char* at = list; (at = strstr(at, name)) != nullptr; at += n) {
    bool begins = at == list || at[-1] == ',';
    if (begins && (at[n] == ',' || at[n] == 0)) return true;
  }
  return false;
}

// Each kind as often as its weight, scaled by the program's shares.
std::vector<const Kind*> make_table(const Shares& shares, const char* skip) {
  std::vector<const Kind*> table;
  for (Kinds kinds : {open_kinds(), read_kinds(), move_kinds(), map_kinds(),
                      change_kinds(), stream_kinds(), process_kinds()}) {
    for (size_t i = 0; i < kinds.count; ++i) {
      const Kind& k = kinds.first[i];
      unsigned share = k.kind == Class::kChange    ? shares.change
                       : k.kind == Class::kProcess ? shares.process
                                                   : 100;
      if (left_out(skip, k.name)) continue;
      table.insert(table.end(), k.weight * share / 25, &k);
    }
  }
  return table;
}

void finish(World& w) {
  std::sort(w.fds.begin(), w.fds.end());
  for (int fd : w.fds) {
    int error;
    long at = DIFF_CALL(error, lseek(fd, 0, SEEK_CUR));
    say(w, "end: %d is at %s", fd, result(at, error).c_str());
  }
  std::vector<std::string> files = w.files;
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  for (const std::string& file : files) say_contents(w, file);
}

// All the ways a program may end.
[[noreturn]] void leave(World& w) {
  switch (w.below(4)) {
    case 0:
      _exit(0);
    case 1:
      quick_exit(0);
    default:
      exit(0);
  }
}

[[noreturn]] void run(World& w, int calls, const char* skip) {
  static const Shares kShares[] = {
      {0, 25}, {25, 25}, {25, 100}, {100, 50}, {200, 200}};
  Shares shares = w.pick(kShares);
  w.writers_percent = shares.change == 0 ? 0 : 5 + shares.change / 8;
  w.stores_allowed = w.chance(50);
  make_files(w);
  std::vector<const Kind*> table = make_table(shares, skip);
  for (w.call = 1; w.call <= calls; ++w.call) {
    alarm(60);  // a call that hangs ends the program
    table[w.below(table.size())]->run(w);
  }
  finish(w);
  leave(w);
}

}  // namespace

void say_contents(World& w, const std::string& file) {
  int fd = open(file.c_str(), O_RDONLY);
  uint64_t h = 0;
  off_t total = 0;
  ssize_t got;
  while ((got = read(fd, w.buffer, 1 << 20)) > 0) {
    h = h * 31 + hash(w.buffer, got);
    total += got;
  }
  say(w, "end: %s has %ld bytes #%016lx, size %ld", file.c_str(), total, h,
      long(w.size_of(fd)));
  close(fd);
}

}  // namespace diff

int main(int count, char** arguments) {
  if (count == 6 && strcmp(arguments[1], "--write") == 0)
    return diff::outside_writer(arguments + 2);
  if (count < 4) {
    fprintf(stderr, "usage: diff_program SEED CALLS DIR [left out]\n");
    return 2;
  }
  static diff::World w;
  w.state = strtoull(arguments[1], nullptr, 10);
  w.self = "/proc/self/exe";
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) > 0) w.self = self;
  if (chdir(arguments[3]) != 0) return 2;
  w.dir = arguments[3];
  umask(077);
  signal(SIGPIPE, SIG_IGN);
  diff::park_numbers();
  diff::make_buffer(w);
  diff::run(w, atoi(arguments[2]), count > 4 ? arguments[4] : "");
}
