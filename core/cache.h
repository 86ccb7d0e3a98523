// SPDX-License-Identifier: MIT
// What the interposer may ask of the engine: adopt a file, read it, hint.
//
// The engine knows descriptors only as a way to name a file at adoption and as
// a hint for cachestat(2); it has no idea that libc calls are intercepted.
#pragma once

#include <sys/uio.h>

#include <atomic>

#include "core/counters.h"
#include "core/lock.h"
#include "core/order.h"
#include "core/pipeline.h"

namespace racache {

struct Config;
struct ThreadSlot;
class File;  // a cached file: one inode under one read lease

// The readahead state of one open file description.
struct OpenStream {
  // Whose hits keep prev_pos; see core/recent.h. Every hit looks, so it lies
  // apart from what they write. Relaxed, and only ever compared.
  std::atomic<const ThreadSlot*> reader;
  Lock lock;          // guards the rest but for prev_pos
  uint32_t in_order;  // small misses in a row, each behind the last
  alignas(64) readahead::Stream stream;  // prev_pos: relaxed atomic accesses
  Pipeline pipeline;
};

namespace engine {

// Which engine this process has: 0 before the first adoption, after a fork
// (however the child was made), and when it is off for good. A File* is valid
// only while the generation it was obtained under is the current one.
[[nodiscard]] uint32_t generation();

// A number that changes in a forked child, however it was made; never 0.
[[nodiscard]] uint32_t process_number();

// Called once at start, before any adoption; cheap, starts nothing.
void configure(const Config& config);

// A glance, before any arrangement is made for adopt(): the reason why the file
// behind `fd` can never be cached, if one fstat(2) shows it (and counts it).
// Most files that a program reads are small.
[[nodiscard]] Reason hopeless(int fd);

struct Adopted {
  File* file;           // with one reference for the caller; null: the kernel's
  uint32_t generation;  // of the engine
  Reason reason;        // when file is null
  bool retry;           // the reason may pass (a writer, a budget): ask later
};
// Makes the file behind `fd` (O_RDONLY, not O_DIRECT) a cached one, starting
// the engine when this is the first. Takes 100 us or so; blocks signals
// meanwhile. Does not allocate, does not leave a descriptor behind.
// ra_pages is set in `stream` as open(2) would have set it.
[[nodiscard]] Adopted adopt(int fd, OpenStream& stream);
// Drops a reference (the last descriptor of a description was closed).
void release(File& file, uint32_t generation);

// Writes the statistics where the configuration says, if anything was cached.
// Once a process; the interposer calls it on the way out.
void write_statistics();
// Gives up every lease: the process is about to end or to become another
// program, and the kernel lets go of a ring's files only some time after that.
void let_go();
// Ends the engine for good, threads, leases, ring and all: for calls that the
// kernel grants to single-threaded processes only (a user namespace), and for
// those after which our system calls might not be welcome (seccomp). Every file
// becomes the kernel's.
void shut_down();
// Our threads make this call too, which the program has made on its own (user
// and group ids, capabilities). If one cannot, the engine shuts down.
void follow(const Order& order);
// The program has no second thread, as far as /proc shows.
[[nodiscard]] bool only_thread();
// The program leases that file: it is dropped and not adopted again. Whether a
// descriptor of ours was open on it; if that takes no longer than 50 ms, none
// is any more.
[[nodiscard]] bool shun(uint64_t device, uint64_t inode);
// A thread is about to end by a system call, perhaps the last of the program.
void expect_end(int status);
// Around a fork, in the parent, after one that failed too. Nothing but a look,
// unless a signal handler that interrupted a hit is what forks.
void before_fork();
void after_fork();
// Waits (at most 100 ms) until no asynchronous read is in flight: completions
// interrupt the submitting thread, and an epoll_wait would return EINTR that
// it would not return without us. One load when nothing is in flight.
void quiesce();
// quiesce() may have something to wait for. No system call.
[[nodiscard]] bool interruptible();

// The descriptor number that the ring occupies among the application's, or -1.
[[nodiscard]] int ring_fd();
// Frees that number (the application dup2()s onto it).
void move_ring_fd();
// Milliseconds that a thread waits for the service thread at most. Where the
// processors are wanted by others it may not come to run for long, and then
// either the kernel serves, or an error would show that is not the program's.
enum class Patience : uint32_t { kKernelServes = 50, kAsNeeded = 2000 };
// Waits until the service thread has let go of every lease that is being
// broken. False: there is no engine, or patience was over.
bool settle_breaks(Patience patience);
// Leases are looked after (core/lease_watch.h); if not, settle_breaks() asks
// for it.
[[nodiscard]] bool leases_watched();

}  // namespace engine

namespace cache {

// Constant while readable(file).
[[nodiscard]] uint64_t size(const File& file);
// The cache speaks for this file at this moment: its lease is held, and leases
// are looked after (core/lease_watch.h). If only the latter fails, it may be
// true again after engine::settle_breaks(). What follows is asked for by a read
// or seek that began before this was true.
[[nodiscard]] bool readable(const File& file);

struct ReadResult {
  size_t done;    // bytes copied, from the front
  bool complete;  // false: the rest of the request is not served yet
};
// Both of these copy [offset, offset + total of iov) clipped to the file's
// size.
//
// The fast half: never waits, takes no lock, makes no system call. Call it
// inside an epoch section, which is what keeps `file` alive. Where it meets
// something that is not a plain hit it stops: complete is false.
RACACHE_HOT ReadResult read_hit(File& file, OpenStream& stream,
                                const iovec* iov, int iov_count,
                                uint64_t offset);
// The whole: continues behind the `skip` bytes that read_hit copied, reads
// ahead, waits for the device. Call it with a reference on the file, outside
// any section. complete is false: the rest of the request is the kernel's.
// `fd` is a hint for cachestat(2) and for RACACHE_VERIFY.
[[nodiscard]] ReadResult read(File& file, OpenStream& stream, const iovec* iov,
                              int iov_count, uint64_t offset, int fd,
                              size_t skip = 0);

// posix_fadvise on a cached file; the errors were checked by the kernel's own
// call. `length` 0 is to the end.
void willneed(File& file, OpenStream& stream, uint64_t offset, uint64_t length,
              int fd);
void dontneed(File& file, uint64_t offset, uint64_t length);
void advise(File& file, OpenStream& stream, int advice);  // NORMAL, RANDOM, ...

}  // namespace cache
}  // namespace racache
