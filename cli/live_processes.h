// SPDX-License-Identifier: MIT
// What the processes with RACACHE_LIVE say of themselves.
#pragma once

#include <sys/types.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace racache::cli {

struct LiveProcess {
  pid_t pid;
  nlohmann::ordered_json statistics;  // the keys of the README
};

// Where this user's processes write; see RACACHE_LIVE.
std::string live_directory();

// Those of `directory` that run and have written within the last seconds; all,
// or only `pid`. Files of processes that are gone are removed.
std::vector<LiveProcess> live_processes(const std::string& directory,
                                        pid_t pid = 0);

}  // namespace racache::cli
