// SPDX-License-Identifier: MIT
// Whether what must hold of a row does. Counts are judged in every run, times
// by the median.
#include <algorithm>
#include <cmath>

#include "cli/bench/rows.h"

namespace racache::cli::bench {
namespace {

using Verdicts = std::vector<Verdict>;

uint64_t device_bytes(const Sample& s) { return s.counts.device_bytes; }
uint64_t folio_count(const Sample& s) { return s.counts.folio_count(); }

std::string whole(double n) { return format("%.0f", n); }

Verdict folios(const Measured& m, double expected, double tolerance) {
  const Spread found = m.runs[1].of(folio_count);
  const double off = std::max(std::abs(found.least - expected),
                              std::abs(found.most - expected));
  const std::string about =
      tolerance > 0 ? format(" +- %.0f %%", tolerance * 100) : "";
  return {whole(expected) + about + " folios", whole(found.median),
          off <= expected * tolerance};
}

// The model's count is known for two sizes.
Verdicts model_folios(const Measured& m, double tolerance) {
  const unsigned expected = m.file_size == kFullSize       ? m.row->model[0]
                            : m.file_size == kFullSize / 4 ? m.row->model[1]
                                                           : 0;
  if (expected == 0) return {};
  return {folios(m, expected, tolerance)};
}

Verdict ratio(const Measured& m, double least) {
  const double found = m.ratio(1);
  return {">= " + times(least), times(found), found >= least};
}

Verdict less_system(const Measured& m) {
  const auto system = [](const Sample& s) { return s.system; };
  const double kernel = m.runs[0].of(system).median;
  const double here = m.runs[1].of(system).median;
  return {format("< %.2f s system", kernel), format("%.2f", here),
          here < kernel};
}

int64_t requests_of(const Sample& s) { return s.requests; }

Verdicts requests(const Measured& m, double most) {
  const Spread found = m.runs[1].of(requests_of);
  if (found.least < 0) return {};
  return {{"<= " + whole(most) + " requests", whole(found.median),
           found.median <= most}};
}

Verdicts fewer_requests(const Measured& m) {
  const Spread kernel = m.runs[0].of(requests_of);
  if (kernel.least < 0) return {};
  return requests(m, kernel.median);
}

// By the library's own count, which other users of the disk do not disturb.
Verdict bytes(const Measured& m, double most) {
  const Spread found = m.runs[1].of(device_bytes);
  const double factor = found.most / static_cast<double>(m.file_size);
  return {format("<= %.2f x the file read", most), format("%.3f", factor),
          factor <= most};
}

Verdict lookups(const Measured& m, double most) {
  const Spread found = m.runs[1].of([](const Sample& s) {
    return static_cast<double>(s.counts.lookups) /
           static_cast<double>(std::max<uint64_t>(s.counts.calls, 1));
  });
  return {format("<= %.2f look-ups a read", most), format("%.4f", found.median),
          found.median <= most};
}

Verdicts same_as(const Measured& m, const std::vector<Measured>& all,
                 double tolerance) {
  for (const Measured& other : all) {
    if (std::string(other.row->name) != m.row->other) continue;
    if (other.runs.size() < 2) continue;
    const double mine = m.runs[1].figure().median;
    const double apart = std::abs(mine / other.runs[1].figure().median - 1);
    return {{format("within %.0f %% of ", tolerance * 100) + m.row->other,
             format("%.1f %%", apart * 100), apart <= tolerance}};
  }
  return {};
}

Verdicts judge_need(const Measured& m, const std::vector<Measured>& all,
                    const Need& need) {
  // Published request counts are those of the full size.
  const bool full = m.file_size == m.row->file_size(kFullSize);
  switch (need.kind) {
    case Need::kFoliosPer:
      return {folios(m, static_cast<double>(m.file_size) / need.value, 0)};
    case Need::kFolios:
      return {folios(m, need.value, 0)};
    case Need::kModelFolios:
      return model_folios(m, need.value);
    case Need::kRatio:
      return {ratio(m, need.value)};
    case Need::kLessSystem:
      return {less_system(m)};
    case Need::kRequests:
      return full ? requests(m, need.value) : Verdicts{};
    case Need::kFewerRequests:
      return fewer_requests(m);
    case Need::kDeviceBytes:
      return {bytes(m, need.value)};
    case Need::kLookups:
      return {lookups(m, need.value)};
    case Need::kSameAsTheOther:
      return same_as(m, all, need.value);
    default:
      return {};
  }
}

// Nobody shall be worse off by much for having preloaded the library.
void judge_fresh(const Measured& m, Verdicts& verdicts) {
  constexpr double kLeast = 0.9;
  const double least = std::string(m.row->name) == "processes-4" ? 0 : kLeast;
  if (m.runs.size() < 3 || least == 0) return;
  const double found = m.ratio(2);
  verdicts.push_back(
      {"fresh >= " + times(least), times(found), found >= least});
}

}  // namespace

std::vector<Verdict> judge(const Measured& m,
                           const std::vector<Measured>& all) {
  Verdicts verdicts;
  if (m.runs.size() < 2 || !m.skipped.empty()) return verdicts;
  for (const Need& need : m.row->needs) {
    for (const Verdict& v : judge_need(m, all, need)) verdicts.push_back(v);
  }
  judge_fresh(m, verdicts);
  return verdicts;
}

}  // namespace racache::cli::bench
