// SPDX-License-Identifier: MIT
// Messages: one line each, prefixed "racache: ", capped in number, written by
// a raw write to descriptor 2, only while that is still the open file that it
// was at start (stderr that is not ours to write is left alone).
//
// Text that did not come from the engine itself (paths, values of variables)
// goes into a line through Text::printable().
#pragma once

#include "core/config.h"
#include "core/text.h"

namespace racache::log {

// Remembers descriptor 2's device and inode. Called once at start, before the
// program can have opened a file of its own as number 2.
void init(LogLevel level);
void set_level(LogLevel level);
[[nodiscard]] bool enabled(LogLevel level);
// Whether fd 2 is still what it was at start. False before init().
[[nodiscard]] bool stderr_is_ours();

// Writes "racache: " + line + "\n" in one writev; at most 16 lines a process,
// the last of which says that there are more. Callable with locks held and
// from any thread; no errno, no signal to the application.
inline constexpr unsigned kMaxLines = 16;
void line(LogLevel level, const Text& text);

}  // namespace racache::log
