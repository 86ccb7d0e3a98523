// SPDX-License-Identifier: MIT
// Anonymous memory from raw system calls: zeroed, private, and committed only
// as it is touched.
#pragma once

#include <sys/mman.h>

#include "core/sys.h"

namespace racache::mapping {

inline void release(void* memory, size_t bytes) {
  sys::invoke(SYS_munmap, memory, bytes);
}

// `fork_advice` is MADV_DONTFORK or MADV_WIPEONFORK and is not optional:
// memory that a child could mistake for its own is worse than none. Null when
// the kernel refuses the memory (RLIMIT_AS) or the advice.
[[nodiscard]] inline void* reserve(size_t bytes, int fork_advice) {
  const long at =
      sys::invoke(SYS_mmap, 0L, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
  if (sys::failed(at)) return nullptr;
  void* memory = reinterpret_cast<void*>(at);
  if (!sys::failed(sys::invoke(SYS_madvise, memory, bytes, fork_advice))) {
    return memory;
  }
  release(memory, bytes);
  return nullptr;
}

// For advice that only helps.
inline void advise(void* memory, size_t bytes, int advice) {
  sys::invoke(SYS_madvise, memory, bytes, advice);
}

}  // namespace racache::mapping
