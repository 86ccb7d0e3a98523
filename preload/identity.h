// SPDX-License-Identifier: MIT
// Ids and capabilities that the program changes by system call number.
#pragma once

namespace racache::preload {

// After the call has succeeded in the calling thread: ours make it too, if that
// thread is the whole program.
void follow_alone(long number, long a, long b, long c);

void follow_capset(const void* header, const void* data);

// Whether this prctl(2) option is of that kind.
[[nodiscard]] bool changes_identity(int option);

}  // namespace racache::preload
