// SPDX-License-Identifier: MIT
// The execve family: positions of what the new program inherits go to the
// kernel first; nothing else of ours survives. Statistics are not written: a
// failed exec would have used up the one time.
//
// The list forms build the vector on the stack, as libc does: they may be
// called between vfork and exec, where nothing may be allocated.
#include <unistd.h>
#include <cstdarg>

#include "core/cache.h"
#include "preload/faults.h"
#include "preload/fd_table.h"
#include "preload/real.h"

namespace racache::preload {

namespace {

void before_exec() {
  share_positions(Share::kInheritable);
  if (in_own_process()) engine::let_go();
}

// The number of arguments up to the null pointer, `first` included.
size_t count_arguments(const char* first, va_list& list) {
  size_t count = first != nullptr;
  while (count != 0 && va_arg(list, const char*) != nullptr) ++count;
  return count;
}

// Fills argv[0..count] and leaves `list` behind the null pointer (by reference:
// on some architectures a va_list is passed by value).
void collect_arguments(const char* first, va_list& list, char** argv,
                       size_t count) {
  argv[0] = const_cast<char*>(first);
  for (size_t i = 1; i <= count; ++i) argv[i] = va_arg(list, char*);
}

}  // namespace

// Declares argv from the arguments `first, ...` of the function it stands in,
// and leaves `rest` open behind them.
#define RACACHE_COLLECT(first)                                            \
  va_list rest;                                                           \
  va_start(rest, first);                                                  \
  const size_t count = count_arguments(first, rest);                      \
  va_end(rest);                                                           \
  auto** argv =                                                           \
      static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*))); \
  va_start(rest, first);                                                  \
  collect_arguments(first, rest, argv, count)

namespace hook {

int execve(const char* path, char* const* argv, char* const* envp) {
  const faults::Inherited inherited;
  before_exec();
  return real::execve(path, argv, envp);
}

int execv(const char* path, char* const* argv) {
  const faults::Inherited inherited;
  before_exec();
  return real::execv(path, argv);
}

int execvp(const char* file, char* const* argv) {
  const faults::Inherited inherited;
  before_exec();
  return real::execvp(file, argv);
}

int execvpe(const char* file, char* const* argv, char* const* envp) {
  const faults::Inherited inherited;
  before_exec();
  return real::execvpe(file, argv, envp);
}

int fexecve(int fd, char* const* argv, char* const* envp) {
  const faults::Inherited inherited;
  before_exec();
  return real::fexecve(fd, argv, envp);
}

int execveat(int dir, const char* path, char* const* argv, char* const* envp,
             int flags) {
  const faults::Inherited inherited;
  before_exec();
  return real::execveat(dir, path, argv, envp, flags);
}

int execl(const char* path, const char* argument, ...) {
  RACACHE_COLLECT(argument);
  va_end(rest);
  const faults::Inherited inherited;
  before_exec();
  return real::execv(path, argv);
}

int execlp(const char* file, const char* argument, ...) {
  RACACHE_COLLECT(argument);
  va_end(rest);
  const faults::Inherited inherited;
  before_exec();
  return real::execvp(file, argv);
}

// The environment follows the null pointer.
int execle(const char* path, const char* argument, ...) {
  RACACHE_COLLECT(argument);
  char* const* envp = va_arg(rest, char**);
  va_end(rest);
  const faults::Inherited inherited;
  before_exec();
  return real::execve(path, argv, envp);
}

}  // namespace hook
}  // namespace racache::preload
