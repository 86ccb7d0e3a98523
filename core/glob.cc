// SPDX-License-Identifier: MIT
// One loop with one place to go back to. A position in the pattern is a byte;
// one in the text as well, but '?' and sets take a whole UTF-8 character.
#include "core/glob.h"

namespace racache {
namespace {

constexpr size_t kNowhere = static_cast<size_t>(-1);

// std::string_view::substr can throw, which would need the C++ library.
std::string_view part(std::string_view s, size_t begin, size_t end) {
  return {s.data() + begin, end - begin};
}

// Where the set that begins at `at` ('[') ends: the index of its ']', or
// kNowhere, in which case the '[' stands for itself.
size_t set_end(std::string_view pattern, size_t at) {
  size_t i = at + 1;
  if (i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^')) ++i;
  if (i < pattern.size() && pattern[i] == ']') ++i;  // a first ']' is a member
  for (; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] == ']') {
      return i;
    }
  }
  return kNowhere;
}

unsigned char member(std::string_view set, size_t& i) {
  if (set[i] == '\\' && i + 1 < set.size()) ++i;
  return static_cast<unsigned char>(set[i++]);
}

// `set` is what stands between the brackets.
bool set_has(std::string_view set, unsigned char c) {
  size_t i = 0;
  const bool negated = set[0] == '!' || set[0] == '^';
  if (negated) ++i;
  bool found = false;
  while (i < set.size()) {
    const unsigned char low = member(set, i);
    unsigned char high = low;
    if (i + 1 < set.size() && set[i] == '-') {
      ++i;
      high = member(set, i);
    }
    found |= low <= c && c <= high;
  }
  return found != negated;
}

// Matches the single-character element at pattern[p] against c; on success
// moves p behind it.
bool match_one(std::string_view pattern, size_t& p, char c) {
  const char want = pattern[p];
  if (want == '?') return c != '/' && ++p;
  if (want == '[') {
    const size_t end = set_end(pattern, p);
    if (end != kNowhere && end > p + 1) {
      const auto set = part(pattern, p + 1, end);
      if (c == '/' || !set_has(set, static_cast<unsigned char>(c))) {
        return false;
      }
      p = end + 1;
      return true;
    }
  }
  if (want == '\\' && p + 1 < pattern.size()) {
    return pattern[p + 1] == c && (p += 2);
  }
  return want == c && ++p;
}

// Behind a '?' or a set, the rest of the same UTF-8 character.
size_t character_end(std::string_view text, size_t t, char element) {
  ++t;
  if (element != '?' && element != '[') return t;
  while (t < text.size() && (text[t] & 0xc0) == 0x80) ++t;
  return t;
}

// Whether a pattern that ends with `t` characters matched is satisfied.
bool satisfied(std::string_view text, size_t t, bool below) {
  if (t == text.size()) return true;
  return below && (text[t] == '/' || (t > 0 && text[t - 1] == '/'));
}

bool match(std::string_view pattern, std::string_view text, bool below) {
  size_t p = 0;
  size_t t = 0;
  size_t star = kNowhere;  // behind the latest '*'
  size_t star_text = 0;    // what it has taken so far ends here
  for (;;) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
      continue;
    }
    if (p == pattern.size() && satisfied(text, t, below)) return true;
    if (p < pattern.size() && t < text.size()) {
      const char element = pattern[p];
      if (match_one(pattern, p, text[t])) {
        t = character_end(text, t, element);
        continue;
      }
    }
    // The latest star takes one character more. An earlier one need not be
    // tried again: the text it could reach, this one reaches as well.
    if (star == kNowhere || star_text >= text.size()) return false;
    p = star;
    t = ++star_text;
  }
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  return match(pattern, text, false);
}

bool glob_match_path(std::string_view pattern, std::string_view path) {
  if (pattern.find('/') != std::string_view::npos) {
    return match(pattern, path, true);
  }
  for (size_t i = 0; i < path.size(); ++i) {
    const bool begins = path[i] != '/' && (i == 0 || path[i - 1] == '/');
    if (begins && match(pattern, part(path, i, path.size()), true)) return true;
  }
  return false;
}

std::string_view next_glob(std::string_view& list) {
  size_t end = 0;
  while (!list.empty() && list[0] == ':') list.remove_prefix(1);
  while (end < list.size() && list[end] != ':') {
    end += list[end] == '\\' ? 2 : 1;
  }
  if (end > list.size()) end = list.size();
  const std::string_view first = part(list, 0, end);
  list.remove_prefix(end);
  return first;
}

}  // namespace racache
