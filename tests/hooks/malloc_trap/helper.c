/* SPDX-License-Identifier: MIT */
/* A preload library whose allocator ends the program, or counts, when any of
 * its threads enters it while the victim is inside one of the calls under
 * test. The wrappers hand out memory of their own, so that dlsym's and libc's
 * needs are met as well. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int trap_armed; /* the end of the program, if 1; counted, if 2 */
unsigned trap_count;

static char memory[64 << 20];
static size_t used;

static void check(const char* who) {
  int now = __atomic_load_n(&trap_armed, __ATOMIC_RELAXED);
  if (now == 0) return;
  if (now == 2) {
    __atomic_fetch_add(&trap_count, 1, __ATOMIC_RELAXED);
    return;
  }
  trap_armed = 0;
  const char* text[] = {"allocation inside a hook: ", who, "\n"};
  for (int i = 0; i < 3; ++i) {
    if (syscall(SYS_write, 2, text[i], strlen(text[i])) < 0) break;
  }
  __builtin_trap();
}

/* Never gives back; the size stands before each block. */
static void* take(size_t size, size_t align) {
  if (align < 16) align = 16;
  size_t need = ((size + 15) & ~(size_t)15) + align + 16;
  size_t at = __atomic_fetch_add(&used, need, __ATOMIC_RELAXED);
  if (at + need > sizeof memory) {
    errno = ENOMEM;
    return NULL;
  }
  uintptr_t p = ((uintptr_t)memory + at + 16 + align - 1) & ~(align - 1);
  ((size_t*)p)[-1] = size;
  return (void*)p;
}

void* malloc(size_t size) {
  check("malloc");
  return take(size, 16);
}
void free(void* p) {
  if (p) check("free");
}
void* calloc(size_t n, size_t size) {
  check("calloc");
  return take(n * size, 16);
}
void* realloc(void* p, size_t size) {
  check("realloc");
  void* q = take(size, 16);
  if (p && q) {
    size_t old = ((size_t*)p)[-1];
    memcpy(q, p, old < size ? old : size);
  }
  return q;
}
void* memalign(size_t align, size_t size) {
  check("memalign");
  return take(size, align);
}
void* aligned_alloc(size_t align, size_t size) {
  check("aligned_alloc");
  return take(size, align);
}
int posix_memalign(void** out, size_t align, size_t size) {
  check("posix_memalign");
  return (*out = take(size, align)) ? 0 : ENOMEM;
}
