/* SPDX-License-Identifier: MIT */
/* daemon(3) forks, leaves the parent by _exit, and puts /dev/null on 0, 1 and
 * 2 from inside libc: what was open there is gone, everything else goes on at
 * its position. */
#include "../victim.h"

#include <sys/wait.h>

static int report;

static void tell(int line, int good) {
  if (!good) dprintf(report, "line %d: wrong (errno %d)\n", line, errno);
}
#define TELL(what) tell(__LINE__, (what))

static int run(void) {
  char c;
  alarm(60); /* nobody waits for a daemon that hangs */
  close(0);
  int zero = open("a", O_RDONLY), other = open("b", O_RDONLY);
  TELL(zero == 0 && reads(0, 100, 0, 0) && reads(other, 70, 0, 7));
  TELL(daemon(1, 0) == 0);
  alarm(60);
  TELL(read(0, &c, 1) == 0 && pread(0, &c, 1, 500) == 0); /* /dev/null */
  TELL(lseek(0, 0, SEEK_CUR) == 0);
  TELL(reads(other, 30, 70, 7) && preads(other, 60000, 12345, 7));
  TELL(preads(other, 60000, 12345, 7));
  TELL(close(0) == 0 && open("a", O_RDONLY) == 0 && reads(0, 50, 0, 0));
  dprintf(report, "daemon done\n");
  return 0;
}

int main(void) {
  make_file("a", 1 << 20, 0);
  make_file("b", 1 << 20, 7);
  int channel[2];
  if (pipe(channel) != 0) return 2;
  pid_t pid = fork();
  if (pid == 0) {
    close(channel[0]);
    report = channel[1];
    exit(run());
  }
  close(channel[1]);
  int status;
  waitpid(pid, &status, 0);
  CHECK(status == 0);
  char text[4096];
  size_t have = 0;
  for (ssize_t n; have < sizeof text - 1; have += (size_t)n) {
    n = read(channel[0], text + have, sizeof text - 1 - have);
    if (n <= 0) break;
  }
  text[have] = 0;
  fputs(text, stdout);
  return verdict();
}
