/* SPDX-License-Identifier: MIT */
/* stdio and directory streams read and close inside libc, where no hook sees
 * them: descriptors that pass between them and read(2) must agree on the
 * position, and a number that libc has closed must not be taken for the file
 * that it once was. */
#include "../victim.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static char got[1 << 16];

static int streams(FILE* f, size_t n, uint64_t at, unsigned salt) {
  return fread(got, 1, n, f) == n && same_bytes(got, n, at, salt);
}

static void from_descriptor(void) {
  int fd = open("a", O_RDONLY);
  CHECK(reads(fd, 100, 0, 0));
  FILE* f = fdopen(fd, "r");
  CHECK(f && ftell(f) == 100 && streams(f, 50, 100, 0));
  CHECK(preads(fd, 5000, 70000, 0));
  CHECK(fseek(f, 200000, SEEK_SET) == 0 && streams(f, 10, 200000, 0));
  CHECK(fflush(f) == 0 && lseek(fd, 0, SEEK_CUR) == 200010);
  CHECK(fclose(f) == 0 && read(fd, got, 1) == -1 && errno == EBADF);
  CHECK(open("b", O_RDONLY) == fd && preads(fd, 5000, 70000, 7));
  CHECK(reads(fd, 100, 0, 7));
  close(fd);
}

/* A number that libc closed and that comes back as a pipe's is no file's. */
static int is_pipe_now(int number) {
  int ends[2];
  if (pipe(ends) != 0 || ends[0] != number) return 0;
  errno = 0;
  int good = pread(number, got, 100, 70000) == -1 && errno == ESPIPE;
  close(ends[0]);
  close(ends[1]);
  return good;
}

static void closed_by_libc(void) {
  int fd = open("a", O_RDONLY);
  CHECK(preads(fd, 5000, 70000, 0) && fclose(fdopen(fd, "r")) == 0);
  CHECK(is_pipe_now(fd));
  CHECK(open("a", O_RDONLY) == fd && preads(fd, 5000, 70000, 0));
  FILE* f = fdopen(fd, "r");
  CHECK(freopen("absent", "r", f) == NULL && is_pipe_now(fd));
  /* Replaced inside libc by another file. */
  CHECK(open("a", O_RDONLY) == fd && preads(fd, 5000, 70000, 0));
  f = freopen("b", "r", fdopen(fd, "r"));
  CHECK(f && fileno(f) == fd && preads(fd, 5000, 70000, 7));
  CHECK(fclose(f) == 0);
}

static void opened_by_libc(void) {
  int fd = open("a", O_RDONLY);
  CHECK(reads(fd, 10, 0, 0) && preads(fd, 5000, 70000, 0));
  close(fd);
  FILE* f = fopen("b", "r");
  CHECK(f && fileno(f) == fd && preads(fd, 5000, 70000, 7));
  CHECK(streams(f, 60000, 0, 7) && preads(fd, 5000, 70000, 7));
  FILE* g = freopen("a", "r", f);
  CHECK(g == f && preads(fileno(g), 5000, 70000, 0) && streams(g, 99, 0, 0));
  CHECK(freopen("absent", "r", g) == NULL && errno == ENOENT);
  CHECK(open("b", O_RDONLY) == fd && preads(fd, 100, 70000, 7));
  close(fd);
  f = fopen64("a", "r");
  CHECK(f && streams(f, 99, 0, 0) && fclose(f) == 0);
  CHECK(fopen("absent", "r") == NULL && errno == ENOENT);
  CHECK(fopen("a", "nonsense") == NULL && errno == EINVAL);
  CHECK(fdopen(999, "r") == NULL && errno == EBADF);
}

static void without_descriptor(void) {
  char text[] = "some text";
  FILE* f = fmemopen(text, sizeof text, "r");
  errno = 0;
  CHECK(f && fgetc(f) == 's' && fclose(f) == 0 && errno == 0);
}

static unsigned entries_by_number(int fd) {
  long n, count = 0;
  while ((n = syscall(SYS_getdents64, fd, got, sizeof got)) > 0) count += n;
  return (unsigned)count;
}

static void directories(void) {
  mkdir("dir", 0755);
  close(creat("dir/x", 0600));
  int fd = open("dir", O_RDONLY);
  unsigned first = entries_by_number(fd);
  CHECK(first > 0 && entries_by_number(fd) == 0);
  CHECK(lseek(fd, 0, SEEK_SET) == 0 && entries_by_number(fd) == first);
  CHECK(lseek(fd, 0, SEEK_SET) == 0);
  CHECK(read(fd, got, 1) == -1 && errno == EISDIR);
  DIR* d = fdopendir(fd);
  int seen = 0;
  while (d && readdir(d)) ++seen;
  CHECK(seen == 3 && closedir(d) == 0 && fcntl(fd, F_GETFD) == -1);
  CHECK(open("a", O_RDONLY) == fd && reads(fd, 100, 0, 0));
  CHECK(fdopendir(fd) == NULL && errno == ENOTDIR && reads(fd, 10, 100, 0));
  close(fd);
}

int main(void) {
  make_file("a", 1 << 20, 0);
  make_file("b", 1 << 20, 7);
  from_descriptor();
  closed_by_libc();
  opened_by_libc();
  without_descriptor();
  directories();
  return verdict();
}
