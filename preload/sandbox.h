// SPDX-License-Identifier: MIT
// Programs that limit their own system calls (seccomp).
#pragma once

namespace racache::preload {

// Before prctl(2) and seccomp(2), with these arguments. A filter that may end
// the process for a call of ours leaves nothing behind that would make one.
void before_prctl(int option, long mode, long filter);
void before_seccomp(unsigned operation, const void* filter);

}  // namespace racache::preload
