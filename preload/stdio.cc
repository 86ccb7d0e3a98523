// SPDX-License-Identifier: MIT
// stdio and directory streams, which open and close descriptors inside libc.
//
// fread and its kin never pass by our hooks, so a stream's file is the
// kernel's: what fopen opened is not tracked, and a tracked descriptor handed
// to fdopen keeps only its absolute reads. All that is needed here is that no
// slot outlives its number.
#include <dirent.h>
#include <cerrno>
#include <cstdio>

#include "core/engine.h"
#include "preload/exit.h"
#include "preload/fd_table.h"
#include "preload/real.h"

namespace racache::preload {

namespace {

// -1 for a stream without a descriptor; errno stays.
int number_of(FILE* stream) {
  const int saved = errno;
  const int fd = stream != nullptr ? fileno(stream) : -1;
  errno = saved;
  return fd;
}

FILE* opened(FILE* stream) {
  if (stream != nullptr) fd_closing(number_of(stream));
  return stream;
}

// An exit handler that closes standard error would take the statistics along:
// this is the last moment at which they can be shown.
void last_words(int fd) {
  if (fd == 2 && engine::config().stats == StatsTarget::kStderr) {
    finish_process();
  }
}

void closing(FILE* stream) {
  const int fd = number_of(stream);
  last_words(fd);
  fd_closing(fd);
}

}  // namespace

namespace hook {

FILE* fopen(const char* path, const char* mode) {
  return opened(real::fopen(path, mode));
}

// The stream reads on from the description's position, by system calls.
FILE* fdopen(int fd, const char* mode) {
  share_position(fd);
  return real::fdopen(fd, mode);
}

// Closes the old descriptor even when the new file cannot be opened; the new
// one usually gets the same number. A null path only changes the mode, by way
// of /proc, which makes a new description as well.
FILE* freopen(const char* path, const char* mode, FILE* stream) {
  closing(stream);
  return opened(real::freopen(path, mode, stream));
}

int fclose(FILE* stream) {
  closing(stream);
  return real::fclose(stream);
}

// The directory stream owns the number from now on.
DIR* fdopendir(int fd) {
  DIR* directory = real::fdopendir(fd);
  if (directory != nullptr) fd_closing(fd);
  return directory;
}

// Its number is dirfd()'s; a null stream is libc's to refuse.
int closedir(DIR* directory) {
  if (directory != nullptr) fd_closing(dirfd(directory));
  return real::closedir(directory);
}

}  // namespace hook

RACACHE_DEFINE_TWIN(fopen64, fopen)
RACACHE_DEFINE_TWIN(freopen64, freopen)

}  // namespace racache::preload
