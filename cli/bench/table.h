// SPDX-License-Identifier: MIT
// Text in columns.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace racache::cli::bench {

class Table {
 public:
  // A column whose heading begins with '<' is flush left, others right.
  explicit Table(std::vector<std::string> headings);
  void add(std::vector<std::string> cells);
  void print(std::ostream& out) const;

 private:
  std::vector<std::vector<std::string>> lines_;
  std::vector<bool> left_;
};

// 12,345
[[nodiscard]] std::string thousands(double n);
// Bytes as MiB; "-" when not known.
[[nodiscard]] std::string mebibytes(double bytes);
// A time or a rate.
[[nodiscard]] std::string figure_text(double value, bool seconds);
// "9:512 0:3": how many folios of which order.
[[nodiscard]] std::string orders_text(const uint64_t (&folios)[10]);

}  // namespace racache::cli::bench
