// SPDX-License-Identifier: MIT
// A number for some bytes, by which two programs tell each other what they
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

inline uint64_t hash(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  uint64_t h = 0xcbf29ce484222325 ^ bytes;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    h = (h ^ word) * 0x9fb21c651e98df25;
    h ^= h >> 29;
  }
  for (; bytes > 0; --bytes, ++at)
    h = (h ^ static_cast<unsigned char>(*at)) * 0x100000001b3;
  return h ^ (h >> 32);
}
