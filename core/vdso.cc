// SPDX-License-Identifier: MIT
// The vDSO is an ELF image that the kernel maps into every process; see vdso(7)
// and elf(5).
#include "core/vdso.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <cstdint>
#include <cstring>

#include "core/sys.h"

namespace racache::vdso {
namespace {

#if defined(__x86_64__)
constexpr char kName[] = "__vdso_clock_gettime";
#else
constexpr char kName[] = "__kernel_clock_gettime";
#endif

int by_system_call(clockid_t clock, timespec* time) {
  return static_cast<int>(sys::invoke(SYS_clock_gettime, clock, time));
}

struct Image {
  uintptr_t bias;  // what is added to the image's addresses
  const ElfW(Sym) * symbols;
  const char* strings;
  const uint32_t* hash;      // DT_HASH, or null
  const uint32_t* gnu_hash;  // DT_GNU_HASH, or null
};

template <class T>
const T* at(uintptr_t address) {
  return reinterpret_cast<const T*>(address);
}

// Its tables; false when it is not what it should be.
bool read_image(uintptr_t base, Image& image) {
  const auto* header = at<ElfW(Ehdr)>(base);
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return false;
  const auto* segment = at<ElfW(Phdr)>(base + header->e_phoff);
  const ElfW(Dyn)* dynamic = nullptr;
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    if (segment[i].p_type == PT_LOAD && segment[i].p_offset == 0) {
      image.bias = base - segment[i].p_vaddr;
    }
    if (segment[i].p_type == PT_DYNAMIC) {
      dynamic = at<ElfW(Dyn)>(base + segment[i].p_offset);
    }
  }
  if (dynamic == nullptr) return false;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const uintptr_t address = image.bias + dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_SYMTAB) image.symbols = at<ElfW(Sym)>(address);
    if (dynamic->d_tag == DT_STRTAB) image.strings = at<char>(address);
    if (dynamic->d_tag == DT_HASH) image.hash = at<uint32_t>(address);
    if (dynamic->d_tag == DT_GNU_HASH) image.gnu_hash = at<uint32_t>(address);
  }
  return image.symbols != nullptr && image.strings != nullptr;
}

// The length of the symbol table, which only its hash tables know. The newer
// one has the first symbol of each chain; the last entry of a chain is odd.
uint32_t symbol_count(const Image& image) {
  if (image.hash != nullptr) return image.hash[1];
  if (image.gnu_hash == nullptr) return 0;
  const uint32_t buckets = image.gnu_hash[0], first = image.gnu_hash[1];
  const uint32_t bloom_words = image.gnu_hash[2];
  const uint32_t* bucket =
      image.gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
  const uint32_t* chain = bucket + buckets;
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets; ++i) {
    if (bucket[i] > last) last = bucket[i];
  }
  if (last < first) return 0;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

ClockGetTime find(const Image& image) {
  const uint32_t count = symbol_count(image);
  for (uint32_t i = 0; i < count; ++i) {
    const ElfW(Sym)& symbol = image.symbols[i];
    if (symbol.st_shndx != SHN_UNDEF &&
        std::strcmp(image.strings + symbol.st_name, kName) == 0) {
      return reinterpret_cast<ClockGetTime>(image.bias + symbol.st_value);
    }
  }
  return nullptr;
}

}  // namespace

constinit ClockGetTime clock_gettime = by_system_call;

void init() {
  Image image{};
  const uintptr_t base = getauxval(AT_SYSINFO_EHDR);
  if (base == 0 || !read_image(base, image)) return;
  const ClockGetTime found = find(image);
  timespec time;
  if (found != nullptr && found(CLOCK_MONOTONIC_COARSE, &time) == 0) {
    clock_gettime = found;
  }
}

}  // namespace racache::vdso
