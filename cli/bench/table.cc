// SPDX-License-Identifier: MIT
#include "cli/bench/table.h"

#include <algorithm>
#include <iomanip>
#include <ostream>

#include "cli/bench/sample.h"

namespace racache::cli::bench {

Table::Table(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    left_.push_back(heading.starts_with('<'));
    if (left_.back()) heading.erase(0, 1);
  }
  lines_.push_back(std::move(headings));
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(left_.size());
  lines_.push_back(std::move(cells));
}

void Table::print(std::ostream& out) const {
  std::vector<size_t> widths(left_.size());
  for (const auto& line : lines_) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  for (const auto& line : lines_) {
    std::string text;
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string gap(widths[i] - line[i].size(), ' ');
      text += (i == 0 ? "" : "  ") + (left_[i] ? line[i] + gap : gap + line[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out << text << '\n';
  }
}

std::string thousands(double n) {
  std::string text = format("%.0f", n);
  for (size_t at = text.size(); at > 3 && text[at - 4] != '-';) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string mebibytes(double bytes) {
  return bytes < 0 ? "-" : format("%.1f", bytes / (1 << 20));
}

std::string figure_text(double value, bool seconds) {
  if (!seconds && value >= 1e6) return format("%.2fM", value / 1e6);
  if (!seconds && value >= 1e5) return format("%.0fk", value / 1e3);
  if (!seconds) return thousands(value);
  return format(value < 0.1 ? "%.4f" : value < 10 ? "%.3f" : "%.1f", value);
}

std::string orders_text(const uint64_t (&folios)[10]) {
  std::string text;
  for (int order = 9; order >= 0; --order) {
    if (folios[order] == 0) continue;
    text += (text.empty() ? "" : " ") + std::to_string(order) + ":" +
            std::to_string(folios[order]);
  }
  return text.empty() ? "-" : text;
}

}  // namespace racache::cli::bench
