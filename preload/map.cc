// SPDX-License-Identifier: MIT
// Mappings stay the kernel's: these hooks only mark the place where one that
// concerns a cached file would be seen. Writable shared mappings need nothing:
// the kernel grants no lease while there is one, and the lease stops new ones.
#include <sys/mman.h>

#include "preload/real.h"

namespace racache::preload {

namespace raw {

void* mmap(void* address, size_t length, int protection, int flags, int fd,
           off_t offset) {
  return reinterpret_cast<void*>(with_errno(
      sys::invoke(SYS_mmap, address, length, protection, flags, fd, offset)));
}

int munmap(void* address, size_t length) {
  return static_cast<int>(with_errno(sys::invoke(SYS_munmap, address, length)));
}

// libc takes the fifth argument, whether it is meant or not.
void* mremap(void* old, size_t old_length, size_t length, int flags,
             void* target) {
  return reinterpret_cast<void*>(with_errno(
      sys::invoke(SYS_mremap, old, old_length, length, flags, target)));
}

}  // namespace raw

namespace hook {

void* mmap(void* address, size_t length, int protection, int flags, int fd,
           off_t offset) {
  return real::mmap(address, length, protection, flags, fd, offset);
}

int munmap(void* address, size_t length) {
  return real::munmap(address, length);
}

void* mremap(void* old, size_t old_length, size_t length, int flags,
             void* target) {
  return real::mremap(old, old_length, length, flags, target);
}

}  // namespace hook

RACACHE_DEFINE_TWIN(mmap64, mmap)

}  // namespace racache::preload
