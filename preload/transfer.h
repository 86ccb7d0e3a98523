// SPDX-License-Identifier: MIT
// Messages that carry descriptors to other processes.
#pragma once

#include "core/base.h"

struct msghdr;
struct mmsghdr;

namespace racache::preload {

// False for a pointer that no program can own: the kernel answers EFAULT, and
// so it should. Others that are bad are the program's to fear.
inline bool plausible(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return address >= kPageSize && address < ~uintptr_t{0} - kPageSize;
}

// Shares the positions of what an SCM_RIGHTS message carries. Pointers that no
// program can own are left for the kernel to refuse.
void share_rights_in(const msghdr* message);
void share_rights_in(const mmsghdr* messages, unsigned count);

}  // namespace racache::preload
