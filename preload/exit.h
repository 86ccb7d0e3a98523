// SPDX-License-Identifier: MIT
// The ways out of a process.
#pragma once

namespace racache::preload {

// Writes the statistics: by whichever way out comes first, once a process (the
// engine sees to that). A vfork child leaves without: the counts are not its.
void finish_process();

}  // namespace racache::preload
