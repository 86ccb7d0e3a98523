// SPDX-License-Identifier: MIT
// `racache sim`: what a cache of which size and policy would have made of a
// trace, and which settings would have been best for it.
#include <algorithm>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <stdexcept>

#include "cli/commands.h"
#include "cli/sim_world.h"
#include "cli/size.h"
#include "core/option_parse.h"
#include "core/option_table.h"

namespace racache::cli {
namespace {

constexpr uint64_t kMib = 1 << 20;

struct Arguments {
  std::string trace;
  std::string strace;
  std::vector<std::string> sizes;
  std::vector<std::string> policies;
  uint64_t read_ahead_kb = 128;
  uint64_t io_kb = 1280;
  uint32_t max_order = kMaxOrder;
  bool advise = false;
};

EvictKind policy_named(const std::string& name) {
  for (const auto& word : options::kEvictWords) {
    if (name == word.text) return word.value;
  }
  throw CLI::ValidationError("--evict", "no such policy: " + name);
}

Trace load(const std::string& path) {
  if (path == "-") return parse_trace(std::cin);
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  return parse_trace(in);
}

// A tenth to one and a half of the data, where the user named no sizes.
std::vector<uint64_t> sizes_for(const Arguments& arguments,
                                const Trace& trace) {
  std::vector<uint64_t> sizes;
  for (const std::string& s : arguments.sizes)
    sizes.push_back(parse_size(s, options::kMinCache));
  if (!sizes.empty()) return sizes;
  for (const unsigned percent : {10, 25, 50, 75, 110}) {
    const uint64_t bytes = trace.touched_bytes / 100 * percent;
    const uint64_t size =
        std::max((bytes + kMib) / kMib * kMib, options::kMinCache);
    if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
  }
  return sizes;
}

SimOptions options_of(const Arguments& arguments) {
  SimOptions options;
  options.read_ahead_kb = arguments.read_ahead_kb;
  options.io_kb = arguments.io_kb;
  options.max_order = arguments.max_order;
  return options;
}

void print_head(const Trace& trace) {
  uint64_t reads = 0;
  for (const TraceEvent& e : trace.events) reads += e.hint == Hint::kRead;
  std::cout << reads << " reads of " << trace.read_bytes / kMib << " MiB, "
            << trace.touched_bytes / kMib << " MiB of them different, in "
            << trace.files.size() << " files\n";
}

void print_row(uint64_t size, const char* policy, const SimResult& r) {
  std::cout << std::setw(9) << size_text(size) << "  " << std::left
            << std::setw(8) << policy << std::right << std::fixed
            << std::setprecision(2) << std::setw(7) << 100 * r.hit_ratio()
            << std::setw(13) << r.counters.device_bytes / kMib << std::setw(11)
            << 100 * r.over_fetch() << std::setw(11) << 100 * r.uncached()
            << std::setw(10) << r.seconds << '\n';
}

void simulate_all(const Trace& trace, const Arguments& arguments) {
  print_head(trace);
  std::cout << "     size  policy    hits%   device MiB  overfetch%  uncached% "
               " seconds\n";
  SimOptions options = options_of(arguments);
  for (const uint64_t size : sizes_for(arguments, trace)) {
    options.cache_bytes = size;
    for (const std::string& name : arguments.policies) {
      options.evict = policy_named(name);
      print_row(size, name.c_str(), simulate(trace, options));
    }
  }
}

// What a run costs, in seconds of a plain SSD: a call that waits, and bytes.
double cost_of(const SimResult& r) {
  constexpr double kWait = 100e-6;
  constexpr double kBytesPerSecond = 1e9;
  return static_cast<double>(r.counters.misses) * kWait +
         static_cast<double>(r.counters.device_bytes) / kBytesPerSecond;
}

struct Choice {
  SimOptions options;
  const char* policy = "s3fifo";
  double cost = 0;
};

Choice evaluate(const Trace& trace, const SimOptions& options,
                const char* policy) {
  return {options, policy, cost_of(simulate(trace, options))};
}

// One setting after the other, keeping the best; a change must earn 1 %.
Choice best_for_size(const Trace& trace, const SimOptions& start) {
  Choice best = evaluate(trace, start, "s3fifo");
  const auto consider = [&](const SimOptions& options, const char* policy) {
    const Choice c = evaluate(trace, options, policy);
    if (c.cost < best.cost * 0.99) best = c;
  };
  for (const uint64_t kb : {0, 32, 512, 2048}) {
    SimOptions o = best.options;
    o.read_ahead_kb = kb;
    consider(o, best.policy);
  }
  for (const uint32_t order : {0, 4}) {
    SimOptions o = best.options;
    o.max_order = order;
    consider(o, best.policy);
  }
  for (const auto& policy : options::kEvictWords) {
    SimOptions o = best.options;
    o.evict = policy.value;
    if (policy.value != EvictKind::kS3Fifo) consider(o, policy.text);
  }
  return best;
}

void print_variables(const Choice& c) {
  std::cout << "RACACHE_SIZE=" << size_text(c.options.cache_bytes)
            << " RACACHE_EVICT=" << c.policy
            << " RACACHE_READ_AHEAD_KB=" << c.options.read_ahead_kb
            << " RACACHE_MAX_ORDER=" << c.options.max_order;
}

// The smallest cache that costs hardly more than the largest: 5 %.
void advise(const Trace& trace, const Arguments& arguments) {
  print_head(trace);
  std::vector<Choice> choices;
  for (const uint64_t size : sizes_for(arguments, trace)) {
    SimOptions options = options_of(arguments);
    options.cache_bytes = size;
    choices.push_back(best_for_size(trace, options));
    std::cout << std::fixed << std::setprecision(3) << std::setw(9)
              << choices.back().cost << " s of waiting with ";
    print_variables(choices.back());
    std::cout << std::endl;
  }
  const Choice& least = *std::min_element(
      choices.begin(), choices.end(),
      [](const Choice& a, const Choice& b) { return a.cost < b.cost; });
  for (const Choice& c : choices) {
    if (c.cost > least.cost * 1.05) continue;
    std::cout << "advice: ";
    print_variables(c);
    std::cout << '\n';
    return;
  }
}

int run(const Arguments& arguments) {
  for (const std::string& size : arguments.sizes)
    (void)parse_size(size, options::kMinCache);
  for (const std::string& name : arguments.policies) (void)policy_named(name);
  if (!arguments.strace.empty()) {
    std::ifstream in(arguments.strace);
    if (!in) throw std::runtime_error(arguments.strace + ": cannot be read");
    return convert_strace(in, std::cout) != 0 ? 0 : 1;
  }
  if (arguments.trace.empty()) throw CLI::RequiredError("TRACE");
  const Trace trace = load(arguments.trace);
  if (trace.touched_bytes == 0) throw std::runtime_error("no reads in it");
  if (arguments.advise) {
    advise(trace, arguments);
  } else {
    simulate_all(trace, arguments);
  }
  return 0;
}

}  // namespace

void add_sim_command(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("sim", "replays a trace of reads without a device");
  auto a = std::make_shared<Arguments>();
  command->add_option("TRACE", a->trace,
                      "lines TIME FILE OFFSET LENGTH [HINT]; - is the standard "
                      "input");
  command->add_option("--from-strace", a->strace,
                      "print the output of strace -f as a trace");
  command->add_option("--size", a->sizes, "sizes of the cache, with ','")
      ->allow_extra_args(false)
      ->delimiter(',');
  command
      ->add_option("--evict", a->policies,
                   "policies, with ',': s3fifo, lru, fifo, clock")
      ->allow_extra_args(false)
      ->delimiter(',');
  command
      ->add_option("--read-ahead-kb", a->read_ahead_kb,
                   "largest readahead window")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_option("--io-kb", a->io_kb, "largest device request")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  command->add_option("--max-order", a->max_order, "of folios")
      ->check(CLI::Range(0u, kMaxOrder))
      ->capture_default_str();
  command->add_flag("--advise", a->advise,
                    "try settings, and print what would have been best");
  command->callback([a, &status] {
    if (a->policies.empty()) {
      for (const auto& word : options::kEvictWords) {
        a->policies.push_back(word.text);
      }
    }
    try {
      status = run(*a);
    } catch (const CLI::Error&) {
      throw;
    } catch (const std::exception& e) {
      std::cerr << "racache: " << e.what() << '\n';
      status = 1;
    }
  });
}

}  // namespace racache::cli
