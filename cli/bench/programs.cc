// SPDX-License-Identifier: MIT
#include "cli/bench/programs.h"

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace racache::cli::bench {
namespace {

using Words = std::vector<std::string>;
using Json = nlohmann::json;

Words own_command(const Row& row, const Place& place, bool warm) {
  const auto number = [](const char* key, uint64_t n) {
    return std::string(key) + "=" + std::to_string(n);
  };
  Words words = {place.self,
                 "bench-workload",
                 row.workload,
                 "file=" + place.data,
                 "stat=" + place.stat,
                 number("size", place.size),
                 number("block", row.block),
                 number("count", row.requests(place.full)),
                 number("threads", row.threads),
                 number("passes", row.passes)};
  if (warm) words.push_back("warm=" + place.warm);
  return words;
}

void add_words(Words& words, const std::string& more) {
  std::istringstream in(more);
  for (std::string word; in >> word;) words.push_back(word);
}

// To fio, ':' parts the names of several files.
std::string fio_file(const std::string& path) {
  std::string option = "--filename=";
  for (const char c : path) {
    if (c == ':') option += '\\';
    option += c;
  }
  return option;
}

// The jobs of one fio process, one after the other: the warm-up, the filling
// of what is to be read from the cache, and the one that is measured.
Words fio_command(const Row& row, const Place& place, bool warm) {
  const bool timed = row.needs[1].kind == Need::kLookups;
  const std::string file = fio_file(place.data);
  Words words = {find_program("fio"), "--output-format=json", "--thread"};
  if (words[0].empty()) return {};
  if (warm) {
    add_words(words,
              "--name=warm --size=64k --bs=64k --rw=read "
              "--ioengine=psync --fadvise_hint=random");
    words.push_back(fio_file(place.warm));
  }
  if (timed) {
    add_words(words,
              "--name=fill --stonewall --bs=1m --rw=read "
              "--ioengine=psync");
    words.push_back(file);
  }
  add_words(words, "--name=measured --stonewall");
  add_words(words, row.workload);
  words.push_back("--bs=" + std::to_string(row.block));
  words.push_back("--size=" + std::to_string(place.size));
  if (timed) add_words(words, "--invalidate=0 --runtime=3");
  words.push_back(file);
  return words;
}

Words database_words(const std::string& path) {
  return {find_program("db_bench"), "--db=" + path,
          "--value_size=1000",      "--compression_type=none",
          "--cache_size=8388608",   "--seed=7"};
}

std::string keys(uint64_t size) { return std::to_string(size / 1032); }

Words database_command(const Row& row, const Place& place) {
  Words words = database_words(place.database);
  if (words[0].empty()) return {};
  add_words(words, "--benchmarks=readseq --use_existing_db --readonly");
  words.push_back("--threads=" + std::to_string(row.threads));
  words.push_back("--num=" + keys(place.size));
  return words;
}

void parse_own(const Row& row, const Ended& ended, Sample& sample) {
  const Json r = Json::parse(ended.output);
  sample.seconds = r.at("seconds");
  sample.user = r.at("user");
  sample.system = r.at("system");
  sample.faults = r.at("faults");
  sample.requests = r.value("requests", int64_t{-1});
  sample.bytes = r.value("bytes", int64_t{-1});
  if (!row.counts_seconds()) {
    sample.rate = r.at("operations").get<double>() / sample.seconds;
  }
}

// fio counts the thread that reads; the library's own threads are not in it.
void parse_fio(const Row& row, const Ended& ended, Sample& sample) {
  // Warnings may stand before the JSON.
  const size_t begin = ended.output.find('{');
  if (begin == std::string::npos) throw std::runtime_error("fio: no JSON");
  const Json all = Json::parse(ended.output.substr(begin));
  const Json& job = all.at("jobs").back();
  const Json& read = job.at("read");
  const double unit = std::string(row.unit) == "MiB/s" ? 1 << 20 : 1e6;
  sample.rate = read.at("bw_bytes").get<double>() / unit;
  sample.seconds = read.at("runtime").get<double>() / 1e3;
  sample.user = job.at("usr_cpu").get<double>() / 100 * sample.seconds;
  sample.system = job.at("sys_cpu").get<double>() / 100 * sample.seconds;
  sample.faults = job.at("minf").get<int64_t>() + job.at("majf").get<int64_t>();
}

void parse_database(const Ended& ended, Sample& sample) {
  static const std::regex line(
      R"(readseq +: +[0-9.]+ micros/op ([0-9]+) ops/sec ([0-9.]+) seconds)");
  std::smatch found;
  if (!std::regex_search(ended.output, found, line)) {
    throw std::runtime_error("db_bench: no line for readseq");
  }
  sample.rate = std::stod(found[1]);
  sample.seconds = std::stod(found[2]);
  sample.user = ended.usage.user;
  sample.system = ended.usage.system;
  sample.faults = ended.usage.faults;
}

}  // namespace

Words command_of(const Row& row, const Place& place, bool warm) {
  switch (row.program) {
    case Program::kFio:
      return fio_command(row, place, warm);
    case Program::kDbBench:
      return database_command(row, place);
    default:
      return own_command(row, place, warm);
  }
}

std::string how_to_install(Program program) {
  return program == Program::kFio
             ? "fio is not installed: apt install fio"
             : "db_bench is not installed: apt install rocksdb-tools";
}

void make_database(const std::string& path, uint64_t size) {
  Words words = database_words(path);
  add_words(words,
            "--benchmarks=fillseq,flush,waitforcompaction "
            "--disable_wal --threads=1");
  words.push_back("--num=" + keys(size));
  words.push_back("--write_buffer_size=" + std::to_string(size * 2));
  const Ended ended = run_program(words, {{"LD_PRELOAD", ""}});
  if (ended.status != 0) throw std::runtime_error("db_bench: " + ended.errors);
}

void parse_output(const Row& row, const Ended& ended, Sample& sample) {
  switch (row.program) {
    case Program::kFio:
      return parse_fio(row, ended, sample);
    case Program::kDbBench:
      return parse_database(ended, sample);
    default:
      return parse_own(row, ended, sample);
  }
}

}  // namespace racache::cli::bench
