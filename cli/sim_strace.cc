// SPDX-License-Identifier: MIT
// `strace -f` output to a trace. What is understood: open, openat, close,
// close_range, dup, dup2, dup3, fcntl(F_DUPFD), read, readv, pread64, preadv,
// lseek, fadvise64, readahead, and clone, by which threads are told from
// processes.
// Calls split by "<unfinished ...>" are joined. Positions are followed from the
// results, so nothing needs to be guessed. Names are taken as they were given:
// a relative name is one file wherever it was opened.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <ostream>

#include "cli/sim_trace.h"

namespace racache::cli {
namespace {

struct Description {
  std::string name;  // escaped, with #number
  uint64_t position = 0;
};
using Table = std::map<int, std::shared_ptr<Description>>;

size_t skip(const std::string& line, const char* characters, size_t at) {
  return std::min(line.find_first_not_of(characters, at), line.size());
}
constexpr const char* kDigits = "0123456789";

// One finished call: "name(arguments) = result".
struct Call {
  std::string name;
  std::vector<std::string> arguments;
  long long result = -1;
  std::string path;  // of the result, with -y
};

// No regular file on a disk is called so.
bool made_up(const std::string& path) {
  if (path.starts_with("/dev/")) return !path.starts_with("/dev/shm/");
  return path.starts_with("/proc/") || path.starts_with("/sys/");
}

// "3</a/b>" -> /a/b>: what follows the path does not matter.
std::string path_of(const std::string& result) {
  const size_t at = skip(result, kDigits, 0);
  return at < result.size() && result[at] == '<' ? result.substr(at + 1) : "";
}

// Splits at commas outside of quotes and brackets.
std::vector<std::string> split_arguments(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) {
      parts.back() += c;
      parts.back() += text[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '[' || c == '{' || c == '(')) ++depth;
    if (!quoted && (c == ']' || c == '}' || c == ')')) --depth;
    if (!quoted && depth == 0 && c == ',') {
      parts.emplace_back();
      if (i + 1 < text.size() && text[i + 1] == ' ') ++i;
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// "\"a\\tb\"" -> a, tab, b. Octal and the usual letters; else as it stands.
std::string unquoted(const std::string& text) {
  std::string out;
  const size_t end = text.rfind('"');
  for (size_t i = text.find('"') + 1; i < end && end != text.npos; ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    int value = 0;
    size_t digits = 0;
    while (digits < 3 && i + 1 < end && text[i + 1] >= '0' &&
           text[i + 1] <= '7') {
      value = value * 8 + (text[++i] - '0');
      ++digits;
    }
    if (digits != 0) {
      out += static_cast<char>(value);
    } else if (i + 1 < end) {
      const char c = text[++i];
      out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
    }
  }
  return out;
}

// "[pid  7] " or "7  ": 7, and `at` behind it. 0 where no pid is given. By
// hand: std::regex recurses for each character, and lines may be long.
int take_pid(const std::string& line, size_t& at) {
  const bool bracket = line.starts_with("[pid ");
  const size_t begin = bracket ? skip(line, " ", 5) : 0;
  const size_t end = skip(line, kDigits, begin);
  const char* behind = bracket ? "] " : " ";
  if (end == begin || line.compare(end, strlen(behind), behind) != 0) return 0;
  at = bracket ? end + 2 : skip(line, " ", end);
  return std::atoi(line.c_str() + begin);
}

// "1.500000 ": as it stands, and `at` behind it. Empty where there is none.
std::string take_time(const std::string& line, size_t& at) {
  const size_t point = skip(line, kDigits, at);
  if (point == at || point == line.size() || line[point] != '.') return "";
  const size_t end = skip(line, kDigits, point + 1);
  if (end == point + 1 || end == line.size() || line[end] != ' ') return "";
  std::string time = line.substr(at, end - at);
  at = end + 1;
  return time;
}

class Converter {
 public:
  explicit Converter(std::ostream& out) : out_(out) {}

  void take(const std::string& line) {
    size_t at = 0;
    const int pid = take_pid(line, at);
    const std::string time = take_time(line, at);
    if (!time.empty()) now(time);
    std::string text = line.substr(at);
    if (!join(pid, text)) return;
    Call call;
    if (parse(text, call) && call.result >= 0) apply(pid, call);
  }
  size_t count() const { return count_; }

 private:
  void now(const std::string& text) {
    const double t = std::strtod(text.c_str(), nullptr);
    if (start_ < 0) start_ = t;
    time_ = t - start_;
  }

  // "read(3, <unfinished ...>" and "<... read resumed>...": false for halves.
  bool join(int pid, std::string& text) {
    static const std::string kOpen = " <unfinished ...>";
    const size_t at = text.find(kOpen);
    if (at != text.npos) {
      halves_[pid] = text.substr(0, at);
      return false;
    }
    if (!text.starts_with("<... ")) return true;
    const size_t end = text.find("resumed>");
    if (end == text.npos || !halves_.contains(pid)) return false;
    text = halves_[pid] + text.substr(end + 8);
    halves_.erase(pid);
    return true;
  }

  static bool parse(const std::string& text, Call& call) {
    const size_t open = text.find('(');
    const size_t equals = text.rfind(" = ");
    if (open == text.npos || equals == text.npos || equals < open) return false;
    const size_t close = text.rfind(')', equals);
    if (close == text.npos || close < open) return false;
    call.name = text.substr(0, open);
    call.arguments = split_arguments(text.substr(open + 1, close - open - 1));
    const std::string result = text.substr(equals + 3);
    call.result = std::strtoll(result.c_str(), nullptr, 10);
    call.path = path_of(result);
    return true;
  }

  // "5</a/b>" and "5" are 5.
  static long long number(const Call& call, size_t i) {
    if (i >= call.arguments.size()) return -1;
    return std::strtoll(call.arguments[i].c_str(), nullptr, 0);
  }
  static uint64_t unsigned_number(const Call& call, size_t i) {
    return static_cast<uint64_t>(number(call, i));
  }
  std::shared_ptr<Description> find(int pid, long long fd) {
    Table& table = table_of(pid);
    const auto at = table.find(static_cast<int>(fd));
    return at == table.end() ? nullptr : at->second;
  }
  // Threads share a table; a forked process begins with a copy.
  Table& table_of(int pid) {
    std::shared_ptr<Table>& table = tables_[pid];
    if (!table) table = std::make_shared<Table>();
    return *table;
  }

  // What no file can be as large as is left out, and no read goes beyond that.
  // A hint that does is one for all of the file: a length of 0.
  void emit(const Description& d, uint64_t offset, uint64_t length, Hint hint) {
    if (offset >= kMostFile) return;
    if (length > kMostFile - offset) {
      length = hint == Hint::kRead ? kMostFile - offset : 0;
    }
    char time[32];
    std::snprintf(time, sizeof time, "%.6f", time_ < 0 ? 0 : time_);
    out_ << time << ' ' << d.name << ' ' << offset << ' ' << length;
    if (hint != Hint::kRead) out_ << ' ' << hint_name(hint);
    out_ << '\n';
    ++count_;
  }

  void apply(int pid, const Call& c) {
    const std::string& n = c.name;
    if (n == "open" || n == "openat") return opened(pid, c, n == "openat");
    if (n == "clone" || n == "clone3" || n == "fork" || n == "vfork") {
      return cloned(pid, c);
    }
    if (n == "close_range") return closed_range(pid, c);
    if (c.arguments.empty()) return;
    const long long fd = number(c, 0);
    if (n == "close") {
      table_of(pid).erase(static_cast<int>(fd));
    } else if (n == "dup" || n == "dup2" || n == "dup3" ||
               (n == "fcntl" && c.arguments.size() > 1 &&
                c.arguments[1].starts_with("F_DUPFD"))) {
      duplicated(pid, fd, static_cast<int>(c.result));
    } else if (auto d = find(pid, fd)) {
      used(*d, c);
    }
  }

  void duplicated(int pid, long long from, int to) {
    if (auto d = find(pid, from)) {
      table_of(pid)[to] = d;
    } else {
      table_of(pid).erase(to);
    }
  }

  void closed_range(int pid, const Call& c) {
    if (c.arguments.size() < 3) return;
    const std::string& flags = c.arguments[2];
    if (flags.find("CLOSE_RANGE_UNSHARE") != flags.npos) {
      tables_[pid] = std::make_shared<Table>(table_of(pid));
    }
    if (flags.find("CLOSE_RANGE_CLOEXEC") != flags.npos) return;
    const long long first = number(c, 0), last = number(c, 1);
    std::erase_if(table_of(pid), [&](const auto& entry) {
      return entry.first >= first && entry.first <= last;
    });
  }

  void cloned(int pid, const Call& c) {
    bool shares = false;
    for (const std::string& a : c.arguments) {
      shares |= a.find("CLONE_FILES") != a.npos;
    }
    Table& table = table_of(pid);
    tables_[static_cast<int>(c.result)] =
        shares ? tables_[pid] : std::make_shared<Table>(table);
  }

  void opened(int pid, const Call& c, bool at) {
    const size_t name = at ? 1 : 0;
    if (c.arguments.size() < name + 2) return;
    const std::string& flags = c.arguments[name + 1];
    Table& table = table_of(pid);
    table.erase(static_cast<int>(c.result));
    if (flags.find("O_DIRECTORY") != flags.npos ||
        flags.find("O_WRONLY") != flags.npos) {
      return;
    }
    const std::string given = unquoted(c.arguments[name]);
    if (made_up(c.path.empty() ? given : c.path)) return;
    auto d = std::make_shared<Description>();
    d->name = escaped_name(given) + "#" + std::to_string(++opened_);
    table[static_cast<int>(c.result)] = d;
  }

  void used(Description& d, const Call& c) {
    const std::string& n = c.name;
    const uint64_t result = static_cast<uint64_t>(c.result);
    if (n == "read" || n == "readv") {
      if (result != 0) emit(d, d.position, result, Hint::kRead);
      d.position += result;
    } else if (n == "pread64" || n == "pread" || n == "preadv" ||
               n == "preadv2") {
      const size_t at = 3;
      if (result != 0 && c.arguments.size() > at) {
        emit(d, unsigned_number(c, at), result, Hint::kRead);
      }
    } else if (n == "lseek" || n == "_llseek") {
      d.position = result;
    } else if (n == "readahead") {
      const uint64_t count = unsigned_number(c, 2);
      if (count != 0) emit(d, unsigned_number(c, 1), count, Hint::kWillneed);
    } else if (n == "fadvise64" && c.arguments.size() > 3) {
      advised(d, c);
    }
  }

  void advised(const Description& d, const Call& c) {
    static const std::map<std::string, Hint> kAdvice = {
        {"POSIX_FADV_WILLNEED", Hint::kWillneed},
        {"POSIX_FADV_DONTNEED", Hint::kDontneed},
        {"POSIX_FADV_NORMAL", Hint::kNormal},
        {"POSIX_FADV_RANDOM", Hint::kRandom},
        {"POSIX_FADV_SEQUENTIAL", Hint::kSequential},
        {"POSIX_FADV_NOREUSE", Hint::kNoreuse}};
    const auto hint = kAdvice.find(c.arguments[3]);
    if (hint == kAdvice.end()) return;
    emit(d, unsigned_number(c, 1), unsigned_number(c, 2), hint->second);
  }

  std::ostream& out_;
  std::map<int, std::shared_ptr<Table>> tables_;
  std::map<int, std::string> halves_;
  double start_ = -1, time_ = 0;
  size_t count_ = 0, opened_ = 0;
};

}  // namespace

size_t convert_strace(std::istream& in, std::ostream& out) {
  Converter converter(out);
  std::string line;
  while (std::getline(in, line)) converter.take(line);
  return converter.count();
}

}  // namespace racache::cli
