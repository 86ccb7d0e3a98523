/* SPDX-License-Identifier: MIT */
/* A call on a descriptor that is not cached may cost at most 10 ns more. Each
 * round times the function that the hook calls and the one that the program is
 * bound to, in turn, on a pipe. Of each the fastest of many rounds counts:
 * whatever else the machine does can only add to the time. */
#include "../victim.h"

#include <dlfcn.h>
#include <time.h>

enum { kRounds = 2000, kCalls = 1000 };

typedef ssize_t Pread(int, void*, size_t, off_t);
typedef ssize_t Read(int, void*, size_t);
typedef off_t Lseek(int, off_t, int);
static void* behind;
static int ends[2];
static char got[16];

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
static double lesser(double a, double b) { return a < b ? a : b; }

static double pread_ns(Pread* f) {
  double begin = now_ns();
  for (int i = 0; i < kCalls; ++i) f(ends[0], got, 1, 0);
  return (now_ns() - begin) / kCalls;
}
static double read_ns(Read* f) {
  double begin = now_ns();
  for (int i = 0; i < kCalls; ++i) f(ends[0], got, 1);
  return (now_ns() - begin) / kCalls;
}
static double lseek_ns(Lseek* f) {
  double begin = now_ns();
  for (int i = 0; i < kCalls; ++i) f(ends[0], 0, SEEK_CUR);
  return (now_ns() - begin) / kCalls;
}

#define MEASURE(name, Type)                                          \
  ({                                                                 \
    Type* real_ = (Type*)dlsym(behind, #name);                       \
    Type* bound_ = name;                                             \
    double least_real_ = 1e9, least_bound_ = 1e9;                    \
    for (int i = 0; i < kRounds; ++i) {                              \
      least_real_ = lesser(least_real_, name##_ns(real_));           \
      least_bound_ = lesser(least_bound_, name##_ns(bound_));        \
    }                                                                \
    printf("%s on a pipe: %.1f %+.1f ns (%s)\n", #name, least_real_, \
           least_bound_ - least_real_,                               \
           real_ == bound_ ? "not hooked" : "hooked");               \
    hooked += real_ != bound_;                                       \
    least_bound_ - least_real_;                                      \
  })

int main(void) {
  int hooked = 0;
  behind = dlopen(getenv("HOOK_HELPER"), RTLD_NOW | RTLD_NOLOAD);
  if (!behind || pipe2(ends, O_NONBLOCK) != 0) return 2;
  double worst = MEASURE(pread, Pread), next = MEASURE(read, Read);
  if (next > worst) worst = next;
  next = MEASURE(lseek, Lseek);
  if (next > worst) worst = next;
  if (hooked != 3) return 3;
  return worst > 10.0;
}
