// SPDX-License-Identifier: MIT
// What the kernel's page cache holds of files, folio by folio.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace racache::cli::bench {

struct FolioCount {
  bool known = false;  // root alone is told which pages are one folio
  uint64_t by_order[10] = {};
};
[[nodiscard]] FolioCount cached_folios(const std::vector<std::string>& files);

}  // namespace racache::cli::bench
