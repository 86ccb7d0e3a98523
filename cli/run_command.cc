// SPDX-License-Identifier: MIT
// `racache run`: starts a program with the library preloaded, or says why the
// library cannot reach it and starts it all the same.
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/elf_file.h"
#include "cli/library.h"
#include "core/config.h"

namespace racache::cli {
namespace {

// As env(1), nice(1) and the shell have it.
constexpr int kOwnFailure = 125;
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

void say(const std::string& line) { std::cerr << "racache: " << line << '\n'; }

std::string in_parentheses(const std::string& s) {
  return s.empty() ? "" : " (" + s + ")";
}

// Whether LD_PRELOAD is worth setting: also for the sake of children.
bool explain(const Program& p) {
  switch (p.preload) {
    case Preload::kStatic:
      say(p.path + " is statically linked" + in_parentheses(p.detail) +
          ": no library can be preloaded into it; it runs without the cache");
      return true;
    case Preload::kPrivileged:
      say(p.path + " runs with privileges" + in_parentheses(p.detail) +
          ": the dynamic linker ignores preloaded libraries; it runs without "
          "the cache");
      return true;
    case Preload::kOtherLibc:
      say(p.path + " does not use glibc" + in_parentheses(p.detail) +
          "; it runs without the cache");
      return false;  // that linker would refuse to start the program
    case Preload::kOtherMachine:
      say(p.path + " is for another machine" + in_parentheses(p.detail) +
          "; it runs without the cache");
      return false;
    case Preload::kNotElf:
      say(p.path + " is not a program that the dynamic linker loads" +
          in_parentheses("no PT_INTERP") + "; it runs without the cache");
      return true;
    default:
      return true;
  }
}

void set_preload(const std::string& library) {
  std::string value = library;
  const char* before = std::getenv("LD_PRELOAD");
  if (before != nullptr && *before != 0) value += std::string(":") + before;
  setenv("LD_PRELOAD", value.c_str(), 1);
}

int not_started(const Program& p, int err) {
  const bool found = err != ENOENT && p.preload != Preload::kNotFound;
  say(p.path + ": " + strerror(err));
  return found ? kCannotRun : kNotFound;
}

int execute(const Program& p, const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& a : arguments) {
    argv.push_back(const_cast<char*>(a.c_str()));
  }
  argv.push_back(nullptr);
  // execvp rather than execv: it also runs a script without "#!".
  execvp(p.path.c_str(), argv.data());
  return not_started(p, errno);
}

bool usable(const Library& library) {
  if (library.path.empty()) {
    say("libracache.so was not found; set RACACHE_LIBRARY to its path. Tried:");
    for (const std::string& place : library.tried) {
      std::cerr << "  " << place << '\n';
    }
    return false;
  }
  if (!library.problem.empty()) {
    say(library.path + " cannot be preloaded: " + library.problem);
    return false;
  }
  return true;
}

using Settings = std::map<std::string, std::string>;

int start(const std::vector<std::string>& arguments, const Settings& settings) {
  const Library library = find_library();
  if (!usable(library)) return kOwnFailure;
  const Program program = inspect(arguments[0]);
  if (program.preload == Preload::kNotFound) {
    return not_started(program, ENOENT);
  }
  if (program.preload == Preload::kNotRunnable) {
    return not_started(program, EACCES);
  }
  for (const auto& [variable, value] : settings) {
    setenv(variable.c_str(), value.c_str(), 1);
  }
  if (explain(program)) set_preload(library.path);
  return execute(program, arguments);
}

bool takes_value(const std::string& argument) {
  return argument.starts_with("--") && argument != "--help" &&
         argument.find('=') == std::string::npos;
}

}  // namespace

std::string option_flag(const std::string& variable) {
  const std::string prefix = "RACACHE_";
  if (!variable.starts_with(prefix)) return "";
  std::string flag = variable.substr(prefix.size());
  for (char& c : flag) {
    c = c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return flag;
}

std::vector<std::string> split_run(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "run") return {};
  size_t i = 1;
  while (i < arguments.size() && arguments[i].starts_with("-") &&
         arguments[i] != "--") {
    i += takes_value(arguments[i]) ? 2 : 1;
  }
  if (i >= arguments.size()) return {};
  const size_t first = arguments[i] == "--" ? i + 1 : i;
  std::vector<std::string> program(
      arguments.begin() + static_cast<ptrdiff_t>(first), arguments.end());
  arguments.resize(i);
  return program;
}

void add_run_command(CLI::App& app, const std::vector<std::string>& program,
                     int& status) {
  CLI::App* command = app.add_subcommand(
      "run",
      "run a program with the cache: racache run [OPTIONS] -- PROGRAM "
      "[ARGUMENTS]");
  auto settings = std::make_shared<Settings>();
  size_t count;
  const OptionRow* rows = option_rows(&count);
  for (size_t i = 0; i < count; ++i) {
    const std::string variable = rows[i].name;
    const std::string flag = option_flag(variable);
    if (flag.empty()) continue;
    command->add_option_function<std::string>(
        "--" + flag,
        [settings, variable](const std::string& value) {
          (*settings)[variable] = value;
        },
        variable + ": " + rows[i].help);
  }
  command->callback([settings, &program, &status] {
    if (program.empty()) {
      throw CLI::RequiredError("PROGRAM");
    }
    status = start(program, *settings);
  });
}

}  // namespace racache::cli
