// SPDX-License-Identifier: MIT
// Path and program-name globs.
//
//   *      any characters, '/' included (so /data/* is all that is below)
//   ?      one character, not '/'
//   [a-z]  one of a set, not '/'; [!a-z] or [^a-z]: none of it
//   \x     x itself, ':' included
//
// A pattern that names a directory also means everything below it. A pattern
// without '/' is compared with every component of the path, not only the last.
//
// The matcher is iterative: only the latest '*' is ever tried again, so the
// work is at most (length of pattern) x (length of text).
#pragma once

#include <string_view>

#include "core/base.h"

namespace racache {

// The whole of `text`.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view text);
// A path, with the two additional rules above.
[[nodiscard]] bool glob_match_path(std::string_view pattern,
                                   std::string_view path);

// Takes the next non-empty element off the front of a ':'-separated list;
// empty when there is none. "\:" does not separate.
[[nodiscard]] std::string_view next_glob(std::string_view& list);

}  // namespace racache
