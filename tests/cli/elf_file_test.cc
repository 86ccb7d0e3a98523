// SPDX-License-Identifier: MIT
// `racache run` reads whatever file it is told to run, before it runs it. It
// must tell apart what the dynamic linker would do with it, and survive files
// that only look like programs.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "cli/elf_file.h"

#include <doctest/doctest.h>
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

using racache::cli::inspect;
using racache::cli::Preload;
using std::string;

namespace {

class Directory {
 public:
  Directory() {
    char name[] = "/tmp/racache-elf-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  string put(const string& name, const string& content, mode_t mode = 0755) {
    const string file = path_ + "/" + name;
    std::ofstream(file, std::ios::binary) << content;
    chmod(file.c_str(), mode);
    return file;
  }
  const string& path() const { return path_; }

 private:
  string path_;
};

#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#else
constexpr unsigned kMachine = EM_AARCH64;
#endif

// Headers only: nothing here is ever executed.
string elf(const string& interpreter, unsigned machine = kMachine) {
  Elf64_Ehdr e{};
  memcpy(e.e_ident, ELFMAG, SELFMAG);
  e.e_ident[EI_CLASS] = ELFCLASS64;
  e.e_machine = static_cast<uint16_t>(machine);
  e.e_phoff = sizeof e;
  e.e_phentsize = sizeof(Elf64_Phdr);
  e.e_phnum = interpreter.empty() ? 0 : 1;
  Elf64_Phdr p{};
  p.p_type = PT_INTERP;
  p.p_offset = sizeof e + sizeof p;
  p.p_filesz = interpreter.size() + 1;
  string s(reinterpret_cast<char*>(&e), sizeof e);
  s.append(reinterpret_cast<char*>(&p), sizeof p);
  return s + interpreter + '\0';
}

string go_static() {
  string s = elf("x");
  Elf64_Phdr p;
  memcpy(&p, s.data() + sizeof(Elf64_Ehdr), sizeof p);
  const string note("\x04\0\0\0\x08\0\0\0\x04\0\0\0Go\0\0buildid.", 24);
  p.p_type = PT_NOTE;
  p.p_offset = s.size();
  p.p_filesz = note.size();
  memcpy(s.data() + sizeof(Elf64_Ehdr), &p, sizeof p);
  return s + note;
}

}  // namespace

TEST_CASE("what the dynamic linker would do") {
  Directory d;
  auto verdict = [&](const string& content) {
    return inspect(d.put("f", content)).preload;
  };
  CHECK(verdict(elf("/lib64/ld-linux-x86-64.so.2")) == Preload::kYes);
  CHECK(verdict(elf("/nix/store/x-glibc/lib/ld-linux-x86-64.so.2")) ==
        Preload::kYes);
  CHECK(verdict(elf("/lib/ld-musl-x86_64.so.1")) == Preload::kOtherLibc);
  CHECK(verdict(elf("/system/bin/linker64")) == Preload::kOtherLibc);
  CHECK(verdict(elf("")) == Preload::kStatic);
  CHECK(verdict(elf("/lib64/ld-linux.so", EM_S390)) == Preload::kOtherMachine);
  string narrow = elf("/lib/ld-linux.so.2");
  narrow[EI_CLASS] = ELFCLASS32;
  CHECK(verdict(narrow) == Preload::kOtherMachine);
  CHECK(verdict("") == Preload::kNotElf);
  CHECK(verdict("echo hello\n") == Preload::kNotElf);
  CHECK(verdict(go_static()) == Preload::kStatic);
  CHECK(inspect(d.put("g", go_static())).detail == "Go");
}

TEST_CASE("a script is judged by its interpreter") {
  Directory d;
  const string musl = d.put("musl", elf("/lib/ld-musl-x86_64.so.1"));
  CHECK(
      inspect(d.put("a", string("#!").append(musl).append(" -x\n"))).preload ==
      Preload::kOtherLibc);
  CHECK(inspect(d.put("b", "#! /bin/sh")).preload == Preload::kYes);
  const string self = d.path() + "/loop";
  CHECK(
      inspect(d.put("loop", string("#!").append(self).append("\n"))).preload ==
      Preload::kNotElf);
  CHECK(inspect(d.put("c", "#!\n")).preload == Preload::kNotElf);
}

TEST_CASE("privileges") {
  if (getuid() != 0) return;  // only root can make such files
  Directory d;
  const string file = d.put("s", elf("/lib64/ld-linux-x86-64.so.2"));
  REQUIRE(chown(file.c_str(), 65534, 65534) == 0);
  REQUIRE(chmod(file.c_str(), 04755) == 0);
  CHECK(inspect(file).preload == Preload::kPrivileged);
  CHECK(inspect(file).detail == "setuid");
  REQUIRE(chmod(file.c_str(), 02755) == 0);
  CHECK(inspect(file).detail == "setgid");
  REQUIRE(chmod(file.c_str(), 0755) == 0);
  CHECK(inspect(file).preload == Preload::kYes);
}

TEST_CASE("lookup along PATH") {
  Directory d;
  setenv("PATH", (d.path() + ":/nonexistent:/usr/bin:/bin").c_str(), 1);
  CHECK(inspect("sh").preload == Preload::kYes);
  CHECK(inspect("no-such-program").preload == Preload::kNotFound);
  CHECK(inspect("/no/such/program").preload == Preload::kNotFound);
  CHECK(inspect("").preload == Preload::kNotFound);
  const string plain = d.put("plain", elf(""), 0644);
  CHECK(inspect("plain").preload == Preload::kNotRunnable);
  CHECK(inspect(plain).preload == Preload::kNotRunnable);
  CHECK(inspect(d.path()).preload == Preload::kNotRunnable);
}

TEST_CASE("damaged headers never do harm") {
  Directory d;
  std::mt19937 random(5);
  const string whole = go_static() + elf("/lib64/ld-linux-x86-64.so.2");
  for (int i = 0; i < 1000; ++i) {
    string s = whole;
    s.resize(random() % (s.size() + 1));
    for (unsigned n = random() % 20; n > 0 && s.size() > 4; --n) {
      s[4 + random() % (s.size() - 4)] = static_cast<char>(random());
    }
    (void)inspect(d.put(std::to_string(i), s));
  }
}
