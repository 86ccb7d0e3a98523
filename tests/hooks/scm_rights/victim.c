/* SPDX-License-Identifier: MIT */
/* A descriptor sent over a socket takes its open file description along: the
 * receiver goes on where the sender stopped, and the sender where it did. */
#include "../victim.h"

#include <sys/socket.h>
#include <sys/wait.h>

static int line[2];

struct Carrier {
  char data;
  struct iovec part;
  union {
    struct cmsghdr align;
    char room[CMSG_SPACE(2 * sizeof(int))];
  } u;
  struct msghdr message;
};

static void pack(struct Carrier* c, const int* fds, size_t count) {
  memset(c, 0, sizeof *c);
  c->part.iov_base = &c->data;
  c->part.iov_len = 1;
  c->message.msg_iov = &c->part;
  c->message.msg_iovlen = 1;
  c->message.msg_control = c->u.room;
  c->message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  struct cmsghdr* head = CMSG_FIRSTHDR(&c->message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(count * sizeof(int));
  memcpy(CMSG_DATA(head), fds, count * sizeof(int));
}

/* The child reads 50 bytes from each descriptor that arrives and tells. */
static void receive(size_t count) {
  struct Carrier c;
  int fds[2] = {-1, -1};
  pack(&c, fds, count);
  if (recvmsg(line[1], &c.message, 0) != 1) _exit(2);
  struct cmsghdr* head = CMSG_FIRSTHDR(&c.message);
  if (head == NULL || head->cmsg_type != SCM_RIGHTS) _exit(4);
  memcpy(fds, CMSG_DATA(head), count * sizeof(int));
  int good = 1;
  for (size_t i = 0; i < count; ++i) {
    good &= reads(fds[i], 50, 100 + 1000 * i, i ? 7 : 0);
    close(fds[i]);
  }
  char answer = good ? 'y' : 'n';
  if (write(line[1], &answer, 1) != 1) _exit(3);
}

static int send_all(const int* fds, size_t count, int many) {
  struct Carrier c;
  pack(&c, fds, count);
  if (!many) return sendmsg(line[0], &c.message, 0) == 1;
  struct mmsghdr list[1] = {{c.message, 0}};
  return sendmmsg(line[0], list, 1, 0) == 1 && list[0].msg_len == 1;
}

static int answered(void) {
  char answer = 0;
  return read(line[0], &answer, 1) == 1 && answer == 'y';
}

static void round_trip(int many) {
  int fds[2] = {open("a", O_RDONLY), open("b", O_RDONLY)};
  CHECK(reads(fds[0], 100, 0, 0) && lseek(fds[1], 1100, SEEK_SET) == 1100);
  CHECK(send_all(fds, 2, many) && answered());
  CHECK(reads(fds[0], 10, 150, 0) && reads(fds[1], 10, 1150, 7));
  close(fds[0]);
  close(fds[1]);
  int one = open("a", O_RDONLY);
  CHECK(reads(one, 100, 0, 0) && send_all(&one, 1, many) && answered());
  CHECK(reads(one, 10, 150, 0));
  close(one);
}

/* What the kernel refuses must still be refused, not crash. */
static void refused(void) {
  struct Carrier c;
  int none = 999;
  pack(&c, &none, 1);
  CHECK(sendmsg(line[0], &c.message, 0) == -1 && errno == EBADF);
  c.message.msg_controllen = 3; /* too short for a header: ignored */
  CHECK(sendmsg(line[0], &c.message, 0) == 1);
  char taken;
  CHECK(recv(line[1], &taken, 1, 0) == 1);
  CHECK(sendmsg(-1, &c.message, 0) == -1 && errno == EBADF);
  CHECK(sendmsg(line[0], (struct msghdr*)-1, 0) == -1 && errno == EFAULT);
  CHECK(sendmsg(line[0], NULL, 0) == -1 && errno == EFAULT);
  c.message.msg_control = (void*)8;
  c.message.msg_controllen = CMSG_SPACE(sizeof(int));
  CHECK(sendmsg(line[0], &c.message, 0) == -1 && errno == EFAULT);
  CHECK(sendmmsg(line[0], NULL, 1, 0) == -1 && errno == EFAULT);
  CHECK(sendmmsg(line[0], NULL, 0, 0) == 0);
}

int main(void) {
  make_file("a", 1 << 20, 0);
  make_file("b", 1 << 20, 7);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, line) != 0) return 2;
  pid_t pid = fork();
  if (pid == 0) {
    alarm(60); /* should the parent be gone */
    for (int i = 0; i < 2; ++i) {
      receive(2);
      receive(1);
    }
    _exit(0);
  }
  round_trip(0);
  round_trip(1);
  int status;
  waitpid(pid, &status, 0);
  CHECK(status == 0);
  refused();
  return verdict();
}
