/* SPDX-License-Identifier: MIT */
/* An allocator may read files, and may be entered from a signal handler: so no
 * interposed call may allocate, the first read with its start of the engine
 * included. The helper's allocator ends the program when one does. */
#include "../victim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static __thread int spare;
static __thread int* armed; /* the allocator's flag of this thread */

static void find_flag(void) {
  int* flag = (int*)dlsym(RTLD_DEFAULT, "trap_armed");
  armed = flag ? flag : &spare;
}

#define INSIDE(call)              \
  ({                              \
    *armed = 1;                   \
    __typeof__(call) r_ = (call); \
    *armed = 0;                   \
    r_;                           \
  })

static char got[1 << 16];

static void reads_and_seeks(void) {
  struct iovec parts[2] = {{got, 100}, {got + 100, 4000}};
  int fd = INSIDE(open("data", O_RDONLY));
  CHECK(INSIDE(read(fd, got, sizeof got)) == sizeof got);
  CHECK(INSIDE(pread(fd, got, 5000, 1 << 20)) == 5000);
  CHECK(INSIDE(pread64(fd, got, 5000, 3 << 20)) == 5000);
  CHECK(INSIDE(readv(fd, parts, 2)) == 4100);
  CHECK(INSIDE(preadv(fd, parts, 2, 9000)) == 4100);
  CHECK(INSIDE(preadv2(fd, parts, 2, 9000, 0)) == 4100);
  CHECK(INSIDE(lseek(fd, 7, SEEK_SET)) == 7);
  CHECK(INSIDE(lseek(fd, 7, SEEK_END)) > 7);
  CHECK(INSIDE(lseek64(fd, 7, SEEK_DATA)) == 7);
  CHECK(INSIDE(posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED)) == 0);
  CHECK(INSIDE(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM)) == 0);
  CHECK(INSIDE(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) == 0);
  CHECK(INSIDE(readahead(fd, 1 << 20, 1 << 20)) == 0);
  CHECK(INSIDE(pread(fd, got, sizeof got, 1 << 20)) == sizeof got);
  CHECK(INSIDE(syscall(SYS_pread64, fd, got, 99, 5)) == 99);
  CHECK(INSIDE(close(fd)) == 0);
}

static void numbers(void) {
  int fd = INSIDE(openat(AT_FDCWD, "data", O_RDONLY));
  int twin = INSIDE(dup(fd));
  CHECK(INSIDE(dup2(fd, 50)) == 50 && INSIDE(dup3(fd, 51, 0)) == 51);
  CHECK(INSIDE(fcntl(fd, F_DUPFD, 52)) == 52);
  CHECK(INSIDE(read(twin, got, 100)) == 100);
  CHECK(INSIDE(close(twin)) == 0);
  CHECK(INSIDE(close_range(50, 60, 0)) == 0);
  int made = INSIDE(creat("new", 0600));
  CHECK(INSIDE(sendfile(made, fd, NULL, 5000)) == 5000);
  CHECK(INSIDE(copy_file_range(fd, NULL, made, NULL, 5000, 0)) == 5000);
  CHECK(INSIDE(close(made)) == 0);
  closefrom(40);
  CHECK(INSIDE(close(fd)) == 0 && INSIDE(open("absent", O_RDONLY)) == -1);
}

static void processes(void) {
  int fd = open("data", O_RDONLY), status;
  CHECK(INSIDE(read(fd, got, 100)) == 100);
  pid_t pid = INSIDE(vfork());
  if (pid == 0) _exit(3);
  waitpid(pid, &status, 0);
  CHECK(WEXITSTATUS(status) == 3);
  pid = INSIDE(_Fork());
  if (pid == 0) { /* where malloc itself may be locked */
    *armed = 1;
    int again = open("data", O_RDONLY);
    if (pread(fd, got, 5000, 70000) != 5000) _exit(1);
    if (read(again, got, 5000) != 5000) _exit(2);
    close(again);
    execl("/bin/true", "true", (char*)NULL);
    _exit(4);
  }
  waitpid(pid, &status, 0);
  CHECK(status == 0);
  close(fd);
}

static void waits(void) {
  struct epoll_event event;
  int poll = epoll_create1(0);
  CHECK(INSIDE(epoll_wait(poll, &event, 1, 1)) == 0);
  close(poll);
}

static void* in_thread(void* argument) {
  find_flag();
  reads_and_seeks();
  return argument;
}

int main(void) {
  make_file("data", 8 << 20, 0);
  find_flag();
  reads_and_seeks();
  numbers();
  processes();
  waits();
  pthread_t thread;
  pthread_create(&thread, NULL, in_thread, NULL);
  pthread_join(thread, NULL);
  return verdict();
}
