// SPDX-License-Identifier: MIT
// Hints. What the kernel checks it checks: the real call comes first, except
// for a hint to read ahead that the cache takes: the kernel would read the same
// range into its own cache.
//
// madvise acts on mappings, which are the kernel's: both forms pass through.
#include <fcntl.h>

#include "preload/real.h"
#include "preload/serve.h"

namespace racache::preload {

namespace hook {

// Returns the error and leaves errno alone.
int posix_fadvise(int fd, off_t offset, off_t length, int advice) {
  if (RACACHE_LIKELY(!may_serve(fd)))
    return real::posix_fadvise(fd, offset, length, advice);
  if (advice == POSIX_FADV_WILLNEED && serve::willneed(fd, offset, length))
    return 0;
  const int error = real::posix_fadvise(fd, offset, length, advice);
  if (error != 0 || advice == POSIX_FADV_WILLNEED) return error;
  if (advice == POSIX_FADV_DONTNEED) {
    serve::dontneed(fd, offset, length);
  } else {
    serve::advise(fd, advice);
  }
  return 0;
}

// A count of 0 is "to the end of the file", as for posix_fadvise.
ssize_t readahead(int fd, off_t offset, size_t count) {
  if (may_serve(fd) && serve::willneed(fd, offset, static_cast<off_t>(count)))
    return 0;
  return real::readahead(fd, offset, count);
}

int madvise(void* address, size_t length, int advice) {
  return real::madvise(address, length, advice);
}

int posix_madvise(void* address, size_t length, int advice) {
  return real::posix_madvise(address, length, advice);
}

}  // namespace hook

RACACHE_DEFINE_TWIN(posix_fadvise64, posix_fadvise)

}  // namespace racache::preload
