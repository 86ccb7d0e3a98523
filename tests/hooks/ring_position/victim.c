/* SPDX-License-Identifier: MIT */
/* A program's own ring reads at the position, by offset -1, and moves it. A
 * file opened before the ring was made, and one opened after. */
#include "../victim.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static int ring;
static char *sq, *cq;
static struct io_uring_sqe *entries;
static struct io_uring_params params;

static int make_ring(void) {
  ring = (int)syscall(SYS_io_uring_setup, 4L, &params);
  if (ring < 0) return 0;
  sq = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
            IORING_OFF_SQ_RING);
  cq = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
            IORING_OFF_CQ_RING);
  entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
                 IORING_OFF_SQES);
  return sq != MAP_FAILED && cq != MAP_FAILED && entries != MAP_FAILED;
}

static unsigned *word(char *queue, unsigned at) {
  return (unsigned *)(queue + at);
}

/* What the ring read at the position, or -errno. */
static int ring_read(int fd, char *to, unsigned count) {
  unsigned tail = *word(sq, params.sq_off.tail);
  unsigned slot = tail & *word(sq, params.sq_off.ring_mask);
  memset(&entries[slot], 0, sizeof *entries);
  entries[slot].opcode = IORING_OP_READ;
  entries[slot].fd = fd;
  entries[slot].addr = (uint64_t)(uintptr_t)to;
  entries[slot].len = count;
  entries[slot].off = ~(uint64_t)0;
  word(sq, params.sq_off.array)[slot] = slot;
  __atomic_store_n(word(sq, params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
  if (syscall(SYS_io_uring_enter, ring, 1L, 1L, (long)IORING_ENTER_GETEVENTS,
              NULL, 0L) != 1) {
    return -errno;
  }
  unsigned head = *word(cq, params.cq_off.head);
  struct io_uring_cqe *answer =
      (struct io_uring_cqe *)(cq + params.cq_off.cqes) +
      (head & *word(cq, params.cq_off.ring_mask));
  int result = answer->res;
  __atomic_store_n(word(cq, params.cq_off.head), head + 1, __ATOMIC_RELEASE);
  return result;
}

static void in_turn(int fd, uint64_t at) {
  char got[300];
  for (int i = 0; i < 5; ++i, at += 400) {
    CHECK(reads(fd, 100, at, 0));
    CHECK(ring_read(fd, got, 300) == 300 && same_bytes(got, 300, at + 100, 0));
  }
  CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)at);
}

int main(void) {
  make_file("data", 1 << 20, 0);
  int before = open("data", O_RDONLY);
  CHECK(preads(before, 9000, 0, 0) && reads(before, 700, 0, 0));
  CHECK(reads(before, 50, 700, 0));
  if (!make_ring()) {
    puts("io_uring is refused here");
    return 77;
  }
  int after = open("data", O_RDONLY);
  CHECK(preads(after, 9000, 0, 0) && reads(after, 10, 0, 0));
  in_turn(before, 750);
  in_turn(after, 10);
  CHECK(preads(after, 9000, 4000, 0));
  return verdict();
}
