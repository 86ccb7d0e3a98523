// SPDX-License-Identifier: MIT
// `racache config`: the option table, for people, programs and the README.
#include <unistd.h>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/config.h"
#include "core/log.h"

namespace racache::cli {
namespace {

struct Option {
  OptionRow row;
  std::string value;
  bool set;  // by the environment
};

std::vector<Option> options_in_force() {
  // The same code as in the library, with its messages on standard error.
  log::init(LogLevel::kWarn);
  Config config;
  load_config(config, environ);
  size_t count;
  const OptionRow* rows = option_rows(&count);
  std::vector<Option> options;
  for (size_t i = 0; i < count; ++i) {
    std::string value(option_value(config, i, nullptr, 0) + 1, 0);
    option_value(config, i, value.data(), value.size());
    value.pop_back();
    options.push_back({rows[i], value, std::getenv(rows[i].name) != nullptr});
  }
  return options;
}

const char* or_empty(const std::string& s) {
  return s.empty() ? "(empty)" : s.c_str();
}

// Values come from the environment: what a terminal would act on is hidden.
std::string shown(const std::string& value) {
  std::vector<char> room(value.size() * 2 + 16);
  Text text(room.data(), room.size());
  text.printable(value.c_str(), value.size());
  return text.c_str();
}

void print_text() {
  for (const Option& o : options_in_force()) {
    std::cout << std::left << std::setw(23) << o.row.name
              << or_empty(shown(o.value)) << (o.set ? "  *" : "") << '\n'
              << "    " << o.row.help << '\n'
              << "    accepts " << o.row.accepts << "; default "
              << or_empty(o.row.fallback) << '\n';
  }
  std::cout << "* set in the environment\n";
}

void print_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const Option& o : options_in_force()) {
    all[o.row.name] = {{"value", o.value},
                       {"default", o.row.fallback},
                       {"set", o.set},
                       {"accepts", o.row.accepts},
                       {"help", o.row.help}};
  }
  using Json = nlohmann::ordered_json;
  std::cout << all.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

std::string code(const std::string& s) {
  return s.empty() ? "empty" : "`" + s + "`";
}

// The same on every machine: no values in force.
void print_markdown() {
  std::cout << "| variable | default | accepts | meaning |\n"
               "|---|---|---|---|\n";
  size_t count;
  const OptionRow* rows = option_rows(&count);
  for (size_t i = 0; i < count; ++i) {
    std::cout << "| " << code(rows[i].name) << " | " << code(rows[i].fallback)
              << " | " << rows[i].accepts << " | " << rows[i].help << " |\n";
  }
}

// Text for troff: no line may begin with a request, no hyphen become a dash.
std::string roff(const std::string& s) {
  std::string out = s.starts_with('.') || s.starts_with('\'') ? "\\&" : "";
  for (const char c : s) {
    if (c == '\\') {
      out += "\\e";
    } else {
      if (c == '-') out += '\\';
      out += c;
    }
  }
  return out;
}

// The ENVIRONMENT section of racache(1), in the macros of man(7).
void print_man() {
  size_t count;
  const OptionRow* rows = option_rows(&count);
  for (size_t i = 0; i < count; ++i) {
    std::cout << ".TP\n.B " << roff(rows[i].name) << '\n'
              << roff(rows[i].help) << ".\nAccepts " << roff(rows[i].accepts)
              << "; default " << roff(or_empty(rows[i].fallback)) << ".\n";
  }
}

}  // namespace

void add_config_command(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("config", "the options and the values in force");
  auto print = std::make_shared<void (*)()>(print_text);
  const auto add_format = [&](const char* flag, void (*printer)(),
                              const char* help) {
    return command->add_flag_callback(
        flag, [print, printer] { *print = printer; }, help);
  };
  CLI::Option* json = add_format("--json", print_json, "as JSON");
  CLI::Option* markdown =
      add_format("--markdown", print_markdown, "as a table, defaults only");
  CLI::Option* man =
      add_format("--man", print_man, "as in the manual, defaults only");
  json->excludes(markdown)->excludes(man);
  markdown->excludes(man);
  command->final_callback([print, &status] {
    (*print)();
    status = 0;
  });
}

}  // namespace racache::cli
