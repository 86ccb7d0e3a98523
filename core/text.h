// SPDX-License-Identifier: MIT
// Allocation-free text building into a fixed buffer; truncates, never fails.
//
// Invariants
// - c_str() is always terminated; size() < room (0 when there is no room).
// - wanted() is what size() would be with room enough (snprintf's rule).
// - Nothing here reads the locale, sets errno or calls into stdio, so that it
//   may run inside a signal handler or a fresh thread without libc's state.
#pragma once

#include <string_view>

#include "core/base.h"

namespace racache {

class Text {
 public:
  Text(char* buffer, size_t room) : buffer_(buffer), room_(room) {
    if (room_ != 0) buffer_[0] = 0;
  }
  Text& operator<<(const char* s);  // null prints "(null)"
  Text& operator<<(char c) { return append(&c, 1); }
  Text& operator<<(uint64_t n);
  Text& operator<<(int64_t n);
  Text& operator<<(int n) { return *this << static_cast<int64_t>(n); }
  Text& operator<<(unsigned n) { return *this << static_cast<uint64_t>(n); }
  Text& append(const char* s, size_t n);
  Text& pad_to(size_t column);  // spaces up to a column of this line
  // At most 9 decimals; not-a-number prints 0, what is over 10^15 prints that.
  Text& fixed(double value, unsigned decimals);
  Text& human_bytes(uint64_t bytes);  // "1.5 GiB", "640 KiB", "12 B"
  // For messages: control characters (those that turn text around included)
  // and bad UTF-8 become '?'; beyond `max` bytes it ends in "...".
  Text& printable(const char* s, size_t max);
  Text& error(int err);  // "EACCES", or "errno 71" for what has no name here

  Text& json_string(const char* s);  // quoted and escaped; bad UTF-8 -> ?
  // The same for a string made of several pieces: what is appended between
  // the two calls is escaped.
  Text& open_quote();
  Text& close_quote();

  const char* c_str() const { return buffer_; }
  size_t size() const { return size_; }
  size_t wanted() const { return wanted_; }
  bool truncated() const { return wanted_ != size_; }

 private:
  void put(const char* s, size_t n);
  void put_escaped(const char* s, size_t n);
  void put_escape(unsigned char c);

  char* buffer_;
  size_t room_;
  size_t size_ = 0;
  size_t wanted_ = 0;
  bool quoting_ = false;
};

// A Text with its buffer inside.
template <size_t N>
class TextBuffer : public Text {
 public:
  TextBuffer() : Text(storage_, N) {}
  TextBuffer(const TextBuffer&) = delete;  // would point into the other
  TextBuffer& operator=(const TextBuffer&) = delete;

 private:
  char storage_[N];
};

// The length of the well-formed UTF-8 character at s (of `left` bytes); 0 when
// there is none. Surrogates, overlong forms and what lies beyond U+10FFFF are
// not well-formed.
[[nodiscard]] unsigned utf8_length(const char* s, size_t left);

// The whole of `digits` as a decimal number. False, and `out` untouched, on
// anything else: signs, spaces, nothing at all, overflow.
[[nodiscard]] bool parse_decimal(std::string_view digits, uint64_t& out);

}  // namespace racache
