// SPDX-License-Identifier: MIT
// write(2) without its side effects on the process: a reader that went away, a
// file-size limit or a background terminal must not send the application a
// signal for output that it did not ask for.
#pragma once

#include <sys/uio.h>

#include "core/base.h"

namespace racache {

// One writev(2) with SIGPIPE, SIGXFSZ and SIGTTOU held back; a SIGPIPE or
// SIGXFSZ that it raised is taken back. The kernel's result: bytes or -errno.
long quiet_write(int fd, const iovec* iov, int count);

// All of `size` bytes, in one write where the file takes it in one. 0 or
// -errno; gives up after a few interruptions.
long quiet_write_all(int fd, const char* data, size_t size);

}  // namespace racache
