// SPDX-License-Identifier: MIT
// Working memory from the kernel, for as long as it takes to write something:
// at exit the stack may be a small signal stack, and the heap may be locked by
// a thread that is being left behind.
#pragma once

#include <sys/mman.h>

#include "core/base.h"
#include "core/sys.h"

namespace racache {

class MappedBuffer {
 public:
  explicit MappedBuffer(size_t size)
      : size_(size),
        address_(sys::invoke(SYS_mmap, 0L, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L)) {}
  ~MappedBuffer() {
    if (valid()) sys::invoke(SYS_munmap, address_, size_);
  }
  MappedBuffer(const MappedBuffer&) = delete;
  MappedBuffer& operator=(const MappedBuffer&) = delete;
  bool valid() const { return !sys::failed(address_); }
  char* data() const { return reinterpret_cast<char*>(address_); }
  size_t size() const { return size_; }

 private:
  size_t size_;
  long address_;
};

}  // namespace racache
