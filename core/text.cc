// SPDX-License-Identifier: MIT
// Every append goes through put(), the one place that writes to the buffer and
// knows its size; everything else is arithmetic on numbers and characters.
#include "core/text.h"

#include <cerrno>
#include <cstring>

namespace racache {
namespace {

// The second byte's range depends on the first one (RFC 3629, section 4).
struct SecondByte {
  unsigned char low, high;
};
constexpr SecondByte second_byte(unsigned char first) {
  if (first == 0xe0) return {0xa0, 0xbf};  // no overlong forms
  if (first == 0xed) return {0x80, 0x9f};  // no surrogates
  if (first == 0xf0) return {0x90, 0xbf};  // no overlong forms
  if (first == 0xf4) return {0x80, 0x8f};  // nothing over U+10FFFF
  return {0x80, 0xbf};
}

// By its first byte; 0 for those that begin no character (continuations, and
// 0xc0, 0xc1, 0xf5 and up, which only overlong or too large ones would need).
constexpr unsigned sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

// Of a well-formed character.
uint32_t code_point(const char* s, unsigned length) {
  const auto* u = reinterpret_cast<const unsigned char*>(s);
  if (length == 1) return u[0];
  uint32_t c = u[0] & (0x7fu >> length);
  for (unsigned i = 1; i < length; ++i) c = (c << 6) | (u[i] & 0x3fu);
  return c;
}

// What could move a terminal's cursor, end the line or reverse its text.
constexpr bool is_control(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
         c == 0x061c || c == 0xfeff;
}

constexpr uint64_t kPowersOfTen[] = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

struct ErrorName {
  int err;
  const char* name;
};
#define RACACHE_NAME(e) \
  ErrorName { e, #e }
constexpr ErrorName kErrorNames[] = {
    RACACHE_NAME(EPERM),      RACACHE_NAME(ENOENT), RACACHE_NAME(ESRCH),
    RACACHE_NAME(EINTR),      RACACHE_NAME(EIO),    RACACHE_NAME(ENXIO),
    RACACHE_NAME(EBADF),      RACACHE_NAME(EAGAIN), RACACHE_NAME(ENOMEM),
    RACACHE_NAME(EACCES),     RACACHE_NAME(EFAULT), RACACHE_NAME(EBUSY),
    RACACHE_NAME(EEXIST),     RACACHE_NAME(ENODEV), RACACHE_NAME(ENOTDIR),
    RACACHE_NAME(EISDIR),     RACACHE_NAME(EINVAL), RACACHE_NAME(ENFILE),
    RACACHE_NAME(EMFILE),     RACACHE_NAME(EFBIG),  RACACHE_NAME(ENOSPC),
    RACACHE_NAME(EROFS),      RACACHE_NAME(EPIPE),  RACACHE_NAME(ENAMETOOLONG),
    RACACHE_NAME(ENOSYS),     RACACHE_NAME(ELOOP),  RACACHE_NAME(EOVERFLOW),
    RACACHE_NAME(EOPNOTSUPP), RACACHE_NAME(ESTALE), RACACHE_NAME(EDQUOT),
    RACACHE_NAME(ETIMEDOUT),
};
#undef RACACHE_NAME

}  // namespace

unsigned utf8_length(const char* s, size_t left) {
  if (left == 0) return 0;
  const auto* u = reinterpret_cast<const unsigned char*>(s);
  const unsigned length = sequence_length(u[0]);
  if (length > left) return 0;
  if (length < 2) return length;
  const SecondByte range = second_byte(u[0]);
  if (u[1] < range.low || u[1] > range.high) return 0;
  for (unsigned i = 2; i < length; ++i) {
    if ((u[i] & 0xc0) != 0x80) return 0;
  }
  return length;
}

void Text::put(const char* s, size_t n) {
  wanted_ += n;
  if (room_ == 0) return;
  // A cut fills the buffer, so nothing is ever added behind the gap.
  const size_t left = room_ - 1 - size_;
  if (n > left) n = left;
  if (n == 0) return;
  memcpy(buffer_ + size_, s, n);
  size_ += n;
  buffer_[size_] = 0;
}

void Text::put_escape(unsigned char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  if (c == '"' || c == '\\') {
    const char pair[] = {'\\', static_cast<char>(c)};
    return put(pair, sizeof pair);
  }
  if (c == '\n') return put("\\n", 2);
  if (c == '\t') return put("\\t", 2);
  const char code[] = {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
  put(code, sizeof code);
}

void Text::put_escaped(const char* s, size_t n) {
  for (size_t i = 0; i < n;) {
    const unsigned length = utf8_length(s + i, n - i);
    const auto c = static_cast<unsigned char>(s[i]);
    if (length == 0) {
      put("?", 1);
    } else if (c < 0x20 || c == '"' || c == '\\') {
      put_escape(c);
    } else {
      put(s + i, length);
    }
    i += length == 0 ? 1 : length;
  }
}

// Numbers pass here too, but digits need no escape.
Text& Text::append(const char* s, size_t n) {
  if (quoting_) {
    put_escaped(s, n);
  } else {
    put(s, n);
  }
  return *this;
}

Text& Text::operator<<(const char* s) {
  if (s == nullptr) s = "(null)";
  return append(s, strlen(s));
}

Text& Text::operator<<(uint64_t n) {
  char digits[20];
  size_t at = sizeof digits;
  do {
    digits[--at] = static_cast<char>('0' + n % 10);
    n /= 10;
  } while (n != 0);
  return append(digits + at, sizeof digits - at);
}

Text& Text::operator<<(int64_t n) {
  if (n >= 0) return *this << static_cast<uint64_t>(n);
  // Negated as unsigned: the least int64_t has no positive twin.
  return *this << '-' << (uint64_t{0} - static_cast<uint64_t>(n));
}

Text& Text::pad_to(size_t column) {
  size_t at = 0;
  while (at < size_ && buffer_[size_ - 1 - at] != '\n') ++at;
  for (; at < column && !truncated(); ++at) put(" ", 1);
  return *this;
}

Text& Text::fixed(double value, unsigned decimals) {
  if (value != value) value = 0;
  if (value < 0) {
    put("-", 1);
    value = -value;
  }
  if (value > 1e15) value = 1e15;
  if (decimals > 9) decimals = 9;
  // 10^15 and 10^9 keep both parts below 2^64, and the whole one exact.
  const uint64_t scale = kPowersOfTen[decimals];
  auto whole = static_cast<uint64_t>(value);
  auto part = static_cast<uint64_t>(
      (value - static_cast<double>(whole)) * static_cast<double>(scale) + 0.5);
  if (part >= scale) {
    ++whole;
    part -= scale;
  }
  *this << whole;
  if (decimals == 0) return *this;
  put(".", 1);
  for (unsigned d = decimals; d-- > 0;) {
    *this << static_cast<char>('0' + part / kPowersOfTen[d] % 10);
  }
  return *this;
}

Text& Text::human_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {" B",   " KiB", " MiB", " GiB",
                                           " TiB", " PiB", " EiB"};
  if (bytes < 1024) return *this << bytes << kUnits[0];
  // Tenths of the unit, rounded; 1023.95 and more belong to the next unit.
  unsigned unit = 0;
  uint64_t tenths = 10240;
  while (tenths >= 10240 && unit < 6) {
    ++unit;
    const uint64_t one = uint64_t{1} << (10 * unit);
    tenths = bytes / one * 10 + (bytes % one * 10 + one / 2) / one;
  }
  *this << tenths / 10;
  if (tenths % 10 != 0 && tenths < 1000) *this << '.' << tenths % 10;
  return *this << kUnits[unit];
}

Text& Text::printable(const char* s, size_t max) {
  if (s == nullptr) s = "(null)";
  // Not strlen: the value of a variable may be 128 KiB, of which 40 are shown.
  const size_t n = strnlen(s, max + 1);
  const size_t keep = n <= max ? n : (max > 3 ? max - 3 : 0);
  for (size_t i = 0; i < keep;) {
    const unsigned length = utf8_length(s + i, n - i);
    if (length > 1 && i + length > keep) break;  // would be cut in two
    if (length == 0 || is_control(code_point(s + i, length))) {
      append("?", 1);
    } else {
      append(s + i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return n <= max ? *this : append("...", 3);
}

Text& Text::error(int err) {
  for (const ErrorName& row : kErrorNames) {
    if (row.err == err) return *this << row.name;
  }
  return *this << "errno " << err;
}

Text& Text::open_quote() {
  put("\"", 1);
  quoting_ = true;
  return *this;
}

Text& Text::close_quote() {
  quoting_ = false;
  put("\"", 1);
  return *this;
}

Text& Text::json_string(const char* s) {
  return open_quote() << (s == nullptr ? "" : s), close_quote();
}

bool parse_decimal(std::string_view digits, uint64_t& out) {
  if (digits.empty()) return false;
  uint64_t n = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return false;
    if (__builtin_mul_overflow(n, uint64_t{10}, &n)) return false;
    if (__builtin_add_overflow(n, static_cast<uint64_t>(c - '0'), &n)) {
      return false;
    }
  }
  out = n;
  return true;
}

}  // namespace racache
