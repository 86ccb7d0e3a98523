/* SPDX-License-Identifier: MIT */
/* Hooks of pipes, sockets, stdio and what waits. From victim.c. */
#pragma once

#include "trap.h"

#include <dirent.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>

static void pipes(void) {
  struct iovec part = {got, 100};
  int ends[2];
  CHECK(pipe(ends) == 0);
  CHECK(INSIDE(write(ends[1], got, 100)) == 100);
  CHECK(INSIDE(__write(ends[1], got, 100)) == 100);
  CHECK(INSIDE(writev(ends[1], &part, 1)) == 100);
  CHECK(INSIDE(read(ends[0], got, 1000)) == 300);
  close(ends[0]);
  close(ends[1]);
  CHECK(INSIDE(getrandom(got, 1000, 0)) == 1000);
}

/* A message that takes a cached file along. */
static void messages(int to, int from, int fd) {
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
  struct iovec part = {got, 100};
  struct mmsghdr one = {0};
  memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
  one.msg_hdr.msg_iov = &part;
  one.msg_hdr.msg_iovlen = 1;
  one.msg_hdr.msg_control = control.room;
  one.msg_hdr.msg_controllen = sizeof control;
  CHECK(INSIDE(sendmsg(to, &one.msg_hdr, 0)) == 100);
  CHECK(INSIDE(sendmmsg(to, &one, 1, 0)) == 1);
  CHECK(INSIDE(recvmsg(from, &one.msg_hdr, 0)) == 100);
  CHECK(INSIDE(recvmmsg(from, &one, 1, 0, NULL)) == 1);
}

static void sockets(void) {
  struct timeval limit = {5, 0};
  int pair[2], fd = open("data", O_RDONLY);
  CHECK(reads(fd, 5000, 0, 0));
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  CHECK(INSIDE(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit,
                          sizeof limit)) == 0);
  CHECK(INSIDE(send(pair[1], got, 400, 0)) == 400);
  CHECK(INSIDE(sendto(pair[1], got, 400, 0, NULL, 0)) == 400);
  CHECK(INSIDE(recv(pair[0], got, 200, MSG_WAITALL)) == 200);
  CHECK(INSIDE(recvfrom(pair[0], got, 200, 0, NULL, NULL)) == 200);
  CHECK(INSIDE(__recv_chk(pair[0], got, 200, sizeof got, 0)) == 200);
  CHECK(INSIDE(__recvfrom_chk(pair[0], got, 200, sizeof got, 0, NULL, NULL)) ==
        200);
  messages(pair[1], pair[0], fd);
  close(pair[0]);
  close(pair[1]);
  close(fd);
}

static void connections(void) {
  struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
  const struct sockaddr* address = (const struct sockaddr*)&name;
  int listening = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(listening, address, sizeof name) == 0);
  CHECK(listen(listening, 5) == 0);
  for (int i = 0; i < 2; ++i) {
    int one = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(INSIDE(connect(one, address, sizeof name)) == 0);
    int other = i == 0 ? INSIDE(accept(listening, NULL, NULL))
                       : INSIDE(accept4(listening, NULL, NULL, 0));
    CHECK(close(one) == 0 && close(other) == 0);
  }
  close(listening);
}

static void waits(void) {
  struct timespec soon = {0, 1000000};
  struct epoll_event event;
  struct sembuf up = {0, 1, 0};
  sigset_t set;
  int poll = epoll_create1(0), id = semget(IPC_PRIVATE, 1, 0600);
  CHECK(INSIDE(epoll_wait(poll, &event, 1, 1)) == 0);
  CHECK(INSIDE(epoll_pwait(poll, &event, 1, 1, NULL)) == 0);
  CHECK(INSIDE(epoll_pwait2(poll, &event, 1, &soon, NULL)) == 0);
  close(poll);
  CHECK(INSIDE(semop(id, &up, 1)) == 0);
  CHECK(INSIDE(semtimedop(id, &up, 1, &soon)) == 0);
  semctl(id, 0, IPC_RMID);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigprocmask(SIG_BLOCK, &set, NULL);
  CHECK(INSIDE(sigtimedwait(&set, NULL, &soon)) == -1);
  raise(SIGUSR2);
  CHECK(INSIDE(sigwaitinfo(&set, NULL)) == SIGUSR2);
}

static void stdio(void) {
  FILE* stream = COUNTED(fopen("data", "r"));
  CHECK(stream != NULL && fread(got, 1, 5000, stream) == 5000);
  stream = COUNTED(freopen("data", "r", stream));
  stream = COUNTED(freopen64("data", "r", stream));
  CHECK(stream != NULL && fread(got, 1, 5000, stream) == 5000);
  CHECK(COUNTED(fclose(stream)) == 0);
  stream = COUNTED(fopen64("data", "r"));
  CHECK(COUNTED(fclose(stream)) == 0);
  int fd = open("data", O_RDONLY);
  CHECK(INSIDE(read(fd, got, 100)) == 100);
  stream = COUNTED(fdopen(fd, "r"));
  CHECK(stream != NULL && fread(got, 1, 100, stream) == 100);
  CHECK(same_bytes(got, 100, 100, 0));
  CHECK(COUNTED(fclose(stream)) == 0);
  stream = COUNTED(popen("echo words", "r"));
  CHECK(stream != NULL && fgets(got, 10, stream) != NULL);
  CHECK(pclose(stream) == 0);
  int folder = INSIDE(open(".", O_RDONLY));
  DIR* directory = COUNTED(fdopendir(folder));
  CHECK(directory != NULL && readdir(directory) != NULL);
  CHECK(COUNTED(closedir(directory)) == 0);
}
