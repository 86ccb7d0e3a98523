// SPDX-License-Identifier: MIT
// The stages of a description (open_file.h): who adopts, who waits, what is
// lost when a writer comes, when to ask again.
#pragma once

#include "preload/open_file.h"

namespace racache::preload::adoption {

enum class May : uint8_t { kAdopt, kOnlyLook };

// The cached file behind the description, valid while `held` is; null: the
// kernel's, for this call at least, and then the position is in the kernel too
// (unless the number has been closed meanwhile). May take 100 us; keeps errno.
[[nodiscard]] File* obtain(const Held& held, May may = May::kAdopt);

// The same without a change of stage: null unless it is cached right now. Lets
// a caller put the position right before a lost file takes it to the kernel.
[[nodiscard]] File* look(const Held& held);

// The kernel's for good: the program did something to the description that a
// cache must not stand in for.
void give_up(const Held& held);

// Inherited by fork: the stage becomes untried in this process.
void renew(const Held& held);

// The thread runs on its alternate signal stack, which may be small.
[[nodiscard]] bool on_alternate_stack();

}  // namespace racache::preload::adoption
