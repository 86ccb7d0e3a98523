// SPDX-License-Identifier: MIT
// lseek(2): where the position is private and the target lies in the file, no
// system call; holes, data, errors and what is beyond the end are the kernel's.
#include "preload/real.h"
#include "preload/serve.h"

namespace racache::preload {

namespace hook {

off_t lseek(int fd, off_t offset, int whence) {
  if (RACACHE_LIKELY(!may_serve(fd))) return real::lseek(fd, offset, whence);
  position::KernelUse use;
  const long at = serve::seek(fd, offset, whence, use);
  return at != serve::kPass ? with_errno(at) : real::lseek(fd, offset, whence);
}

}  // namespace hook

RACACHE_DEFINE_TWIN(lseek64, lseek)
RACACHE_DEFINE_TWIN(__lseek, lseek)

}  // namespace racache::preload
