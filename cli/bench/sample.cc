// SPDX-License-Identifier: MIT
#include "cli/bench/sample.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace racache::cli::bench {

void Statistics::add(const nlohmann::json& s) {
  calls += s.at("reads").at("calls").get<uint64_t>();
  lookups += s.at("index").at("lookups").get<uint64_t>();
  device_requests += s.at("device").at("requests").get<uint64_t>();
  device_bytes += s.at("device").at("bytes").get<uint64_t>();
  const nlohmann::json& readahead = s.at("readahead");
  overlap_skips += readahead.at("overlap_skips").get<uint64_t>();
  trims_avoided += readahead.at("trims_avoided").get<uint64_t>();
  const nlohmann::json& pieces = s.at("folios");
  order_fallbacks += pieces.at("order_fallbacks").get<uint64_t>();
  evicted += pieces.at("evicted").get<uint64_t>();
  for (size_t i = 0; i < 10; ++i) {
    folios[i] += pieces.at("inserted_by_order").at(i).get<uint64_t>();
  }
  adopted += s.at("files").at("adopted").get<uint64_t>();
  for (const auto& [reason, count] : s.at("files").at("kernel").items()) {
    kernel[reason] += count.get<uint64_t>();
  }
}

void Statistics::subtract(const Statistics& w) {
  calls -= std::min(calls, w.calls);
  lookups -= std::min(lookups, w.lookups);
  device_requests -= std::min(device_requests, w.device_requests);
  device_bytes -= std::min(device_bytes, w.device_bytes);
  adopted -= std::min(adopted, w.adopted);
  for (size_t i = 0; i < 10; ++i) folios[i] -= std::min(folios[i], w.folios[i]);
}

uint64_t Statistics::folio_count() const {
  uint64_t count = 0;
  for (const uint64_t n : folios) count += n;
  return count;
}

Spread spread(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double middle = (values[(n - 1) / 2] + values[n / 2]) / 2;
  return {middle, values.front(), values.back()};
}

Spread Runs::figure() const {
  return of([](const Sample& s) { return s.rate > 0 ? s.rate : s.seconds; });
}

std::string format(const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

}  // namespace racache::cli::bench
