// SPDX-License-Identifier: MIT
// The file is whatever the user named: every offset in it is only ever used to
// ask pread(2), which gives nothing beyond the end, and every count is capped.
#include "cli/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <vector>

namespace racache::cli {
namespace {

constexpr int kMaxScripts = 4;          // the kernel's own limit is 5
constexpr size_t kMaxNotes = 64 << 10;  // bytes of notes looked through
constexpr unsigned kMaxHeaders = 128;   // program headers looked at

#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
#endif

class File {
 public:
  explicit File(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool valid() const { return fd_ >= 0; }
  // Up to `size` bytes; fewer at the end of the file.
  std::string read(uint64_t offset, size_t size) const {
    std::string s(size, 0);
    if (offset > INT64_MAX) return {};
    const ssize_t n = pread(fd_, s.data(), size, static_cast<off_t>(offset));
    s.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return s;
  }
  template <class T>
  bool read(uint64_t offset, T& out) const {
    const std::string s = read(offset, sizeof out);
    if (s.size() != sizeof out) return false;
    memcpy(&out, s.data(), sizeof out);
    return true;
  }

 private:
  int fd_;
};

bool runnable(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

Program look_up(const std::string& name) {
  if (name.empty()) return {Preload::kNotFound, name, ""};
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), F_OK) != 0) return {Preload::kNotFound, name, ""};
    const bool ok = runnable(name);
    return {ok ? Preload::kYes : Preload::kNotRunnable, name, ""};
  }
  const char* path = std::getenv("PATH");
  std::istringstream directories(path ? path : "/bin:/usr/bin");
  Preload worst = Preload::kNotFound;
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string file =
        directory.empty() ? "./" + name : directory + "/" + name;
    if (runnable(file)) return {Preload::kYes, file, ""};
    if (access(file.c_str(), F_OK) == 0) worst = Preload::kNotRunnable;
  }
  return {worst, name, ""};
}

// What makes the kernel set AT_SECURE, upon which the dynamic linker ignores
// preloaded libraries that are named by a path.
std::string privilege(const std::string& path) {
  struct stat st;
  if (stat(path.c_str(), &st) != 0) return "";
  if ((st.st_mode & S_ISUID) != 0 && st.st_uid != getuid()) return "setuid";
  const bool group_runs = (st.st_mode & S_IXGRP) != 0;
  if ((st.st_mode & S_ISGID) != 0 && group_runs && st.st_gid != getgid()) {
    return "setgid";
  }
  char value[64];
  const bool capable =
      getxattr(path.c_str(), "security.capability", value, sizeof value) > 0;
  return capable && getuid() != 0 ? "file capabilities" : "";
}

// The name behind "#!", or nothing.
std::string script_interpreter(const File& file) {
  const std::string head = file.read(0, 256);
  if (!head.starts_with("#!")) return "";
  std::istringstream line(head.substr(2, head.find('\n') - 2));
  std::string interpreter;
  line >> interpreter;
  return interpreter;
}

bool notes_say_go(const std::string& notes) {
  // Name size 4, and the name: "Go\0\0".
  return notes.find(std::string("\x04\0\0\0", 4)) == 0 &&
         notes.find(std::string("Go\0\0", 4)) != std::string::npos;
}

struct Headers {
  std::string interpreter;
  bool go = false;
};

Headers read_headers(const File& file, const Elf64_Ehdr& elf) {
  Headers found;
  for (unsigned i = 0; i < elf.e_phnum && i < kMaxHeaders; ++i) {
    Elf64_Phdr header;
    const uint64_t at = elf.e_phoff + uint64_t{i} * elf.e_phentsize;
    if (!file.read(at, header)) break;
    if (header.p_type == PT_INTERP && header.p_filesz <= 4096) {
      found.interpreter =
          file.read(header.p_offset, header.p_filesz).c_str();  // to the NUL
    }
    if (header.p_type == PT_NOTE && header.p_filesz <= kMaxNotes) {
      found.go |= notes_say_go(file.read(header.p_offset, header.p_filesz));
    }
  }
  return found;
}

bool is_glibc(const std::string& interpreter) {
  const std::string_view name =
      std::string_view(interpreter).substr(interpreter.rfind('/') + 1);
  // Also Nix's and others' copies, whatever directory they are in; musl's is
  // ld-musl-*, Android's linker64.
  return name.starts_with("ld-linux") || name.starts_with("ld-2.");
}

Preload judge_elf(const File& file, std::string& detail) {
  Elf64_Ehdr elf;
  if (!file.read(0, elf) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0) {
    return Preload::kNotElf;
  }
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_machine != kMachine) {
    detail = elf.e_ident[EI_CLASS] == ELFCLASS32 ? "32 bits" : "another CPU";
    return Preload::kOtherMachine;
  }
  const Headers headers = read_headers(file, elf);
  if (headers.interpreter.empty()) {
    detail = headers.go ? "Go" : "";
    return Preload::kStatic;
  }
  detail = headers.interpreter;
  return is_glibc(headers.interpreter) ? Preload::kYes : Preload::kOtherLibc;
}

// What is loaded in the end: a script's interpreter rather than the script.
Preload judge(std::string path, std::string& detail) {
  for (int i = 0; i <= kMaxScripts; ++i) {
    const File file(path);
    // It may be executable and not readable; then the kernel decides.
    if (!file.valid()) return Preload::kYes;
    const std::string next = script_interpreter(file);
    if (next.empty()) {
      const Preload verdict = judge_elf(file, detail);
      if (verdict != Preload::kYes) return verdict;
      const std::string why = privilege(path);
      if (why.empty()) return Preload::kYes;
      detail = why;
      return Preload::kPrivileged;
    }
    path = next;
  }
  return Preload::kNotElf;
}

}  // namespace

Program inspect(const std::string& name) {
  Program program = look_up(name);
  if (program.preload == Preload::kYes) {
    program.preload = judge(program.path, program.detail);
  }
  return program;
}

}  // namespace racache::cli
