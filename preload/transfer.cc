// SPDX-License-Identifier: MIT
// Calls by which the kernel itself reads at, or gives away, a file position.
//
// sendfile, splice and copy_file_range without an offset move the position of
// the descriptor they read from; with one they leave it alone. A descriptor in
// an SCM_RIGHTS message takes its description to another process, which may set
// O_DIRECT on it. Each makes the position the kernel's before the call, the
// last the whole description.
//
// Not seen: io_uring requests of the program at the current position, and
// pidfd_getfd(2) by another process. aio_read takes an offset and is no matter.
#include <sys/socket.h>
#include <cstring>

#include "preload/fd_table.h"
#include "preload/real.h"
#include "preload/stream.h"
#include "preload/transfer.h"

namespace racache::preload {

namespace {

void share_rights(const cmsghdr& head) {
  if (head.cmsg_level != SOL_SOCKET || head.cmsg_type != SCM_RIGHTS) return;
  const size_t count = (head.cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < count; ++i) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(&head) + i * sizeof(int), sizeof fd);
    share_position(fd);
    give_to_kernel(fd);
  }
}

}  // namespace

// The kernel's own walk: a header must lie wholly inside the buffer, and so
// must what it announces; the next begins aligned.
void share_rights_in(const msghdr* message) {
  if (!plausible(message) || !plausible(message->msg_control)) return;
  const auto* at = static_cast<const std::byte*>(message->msg_control);
  size_t left = message->msg_controllen;
  while (left >= sizeof(cmsghdr)) {
    const auto& head = *reinterpret_cast<const cmsghdr*>(at);
    if (head.cmsg_len < sizeof(cmsghdr) || head.cmsg_len > left) return;
    share_rights(head);
    const size_t step = CMSG_ALIGN(head.cmsg_len);
    if (step >= left) return;
    at += step;
    left -= step;
  }
}

void share_rights_in(const mmsghdr* messages, unsigned count) {
  if (!plausible(messages)) return;
  for (unsigned i = 0; i < count; ++i) share_rights_in(&messages[i].msg_hdr);
}

namespace hook {

ssize_t sendfile(int out, int in, off_t* offset, size_t count) {
  if (offset == nullptr) share_position(in);
  before_transfer();
  return real::sendfile(out, in, offset, count);
}

ssize_t splice(int in, off_t* in_offset, int out, off_t* out_offset,
               size_t count, unsigned flags) {
  if (in_offset == nullptr) share_position(in);
  before_transfer();
  return real::splice(in, in_offset, out, out_offset, count, flags);
}

ssize_t copy_file_range(int in, off_t* in_offset, int out, off_t* out_offset,
                        size_t count, unsigned flags) {
  if (in_offset == nullptr) share_position(in);
  before_transfer();
  return real::copy_file_range(in, in_offset, out, out_offset, count, flags);
}

}  // namespace hook

RACACHE_DEFINE_TWIN(sendfile64, sendfile)

}  // namespace racache::preload
