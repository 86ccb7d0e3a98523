/* SPDX-License-Identifier: MIT */
/* Five thousand open descriptions at a time: no table of ours may be too small
 * for them, and each keeps a position of its own. */
#include "../victim.h"

#include <sys/resource.h>

enum { kCount = 5000, kSize = 1 << 20 };
static int fds[kCount];

static void open_all(void) {
  for (int i = 0; i < kCount; ++i) {
    fds[i] = open(i % 3 ? "a" : "b", O_RDONLY);
    if (fds[i] < 0) {
      CHECK(fds[i] >= 0);
      return;
    }
  }
}
static unsigned salt(int i) { return i % 3 ? 0 : 7; }

int main(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = kCount + 100;
  if (limit.rlim_max < limit.rlim_cur) limit.rlim_max = limit.rlim_cur;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    puts("cannot raise RLIMIT_NOFILE");
    return 77;
  }
  make_file("a", kSize, 0);
  make_file("b", kSize, 7);
  open_all();
  for (int i = 0; i < kCount; ++i) {
    CHECK(reads(fds[i], 20 + i % 50, 0, salt(i)));
  }
  for (int i = 0; i < kCount; ++i) {
    CHECK(reads(fds[i], 10, 20 + i % 50, salt(i)));
    CHECK(preads(fds[i], 5000, (i * 977) % (kSize - 5000), salt(i)));
    if (wrong_count > 5) break;
  }
  int top = fds[kCount - 1];
  for (int i = 0; i < kCount; i += 2) CHECK(close(fds[i]) == 0);
  CHECK(open("b", O_RDONLY) == fds[0]);
  CHECK(reads(fds[0], 40, 0, 7));
  CHECK(reads(top, 10, 30 + (kCount - 1) % 50, salt(kCount - 1)));
  CHECK(dup2(top, kCount + 99) == kCount + 99);
  CHECK(reads(kCount + 99, 10, 40 + (kCount - 1) % 50, salt(kCount - 1)));
  CHECK(dup2(top, kCount + 100) == -1 && errno == EBADF);
  return verdict();
}
