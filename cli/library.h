// SPDX-License-Identifier: MIT
// Where libracache.so is.
#pragma once

#include <string>
#include <vector>

namespace racache::cli {

struct Library {
  std::string path;                // absolute; empty: not found
  std::vector<std::string> tried;  // in this order
  std::string problem;  // why a library that is there cannot be preloaded
};
// RACACHE_LIBRARY if that is set; otherwise beside the command as installed,
// then in the build tree that the command was built in.
Library find_library();

}  // namespace racache::cli
