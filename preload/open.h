// SPDX-License-Identifier: MIT
// An open for writing is stopped by our own lease on the file like anybody's
// and let go in a moment. With O_NONBLOCK it would fail instead, which it would
// not do without us: so we wait until the lease is gone, and ask again.
#pragma once

#include <fcntl.h>
#include <cerrno>
#include <ctime>

#include "core/cache.h"
#include "core/sys.h"

namespace racache::preload {

// Makes the call, and makes it again while it fails for a lease that is about
// to go: ours, or for some 50 ms another process's under racache, which only
// needs a moment. errno is the program's if it succeeds in the end.
template <class Call>
int persist(int before, int flags, const Call& call) {
  const bool breaks = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
  const int most = breaks && (flags & O_NONBLOCK) != 0 ? 50 : 0;
  int fd = call();
  for (int tries = 0; fd < 0 && errno == EWOULDBLOCK && tries < most; ++tries) {
    const bool gone =
        tries == 0 && engine::settle_breaks(engine::Patience::kAsNeeded);
    if (!gone) {
      const timespec nap{0, 1'000'000};
      sys::invoke(SYS_nanosleep, &nap, 0L);
    }
    fd = call();
  }
  if (fd >= 0) errno = before;
  return fd;
}

}  // namespace racache::preload
