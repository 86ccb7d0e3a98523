// SPDX-License-Identifier: MIT
#include "core/live.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <cerrno>
#include <new>

#include "core/engine.h"
#include "core/log.h"
#include "core/mapped_buffer.h"
#include "core/quiet_write.h"
#include "core/thread.h"

namespace racache {
namespace {

constexpr timespec kPeriod{1, 0};
constexpr size_t kMaxPath = 4096;

using Name = TextBuffer<32>;

void append_names(int pid, Name& file, Name& temporary) {
  file << static_cast<int64_t>(pid) << ".json";
  temporary << '.' << static_cast<int64_t>(pid) << ".new";
}

// A directory that another user may write to could hold a link of theirs
// under our name.
long judge(const struct stat& st) {
  if (!S_ISDIR(st.st_mode)) return -ENOTDIR;
  const auto user = static_cast<uid_t>(sys::invoke(SYS_geteuid));
  const bool shared = (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  return st.st_uid != user || shared ? -EPERM : 0;
}

// Without a descriptor: it would be one of the program's numbers.
long make_directory(const char* path) {
  const long made = sys::invoke(SYS_mkdirat, AT_FDCWD, path, 0700L);
  if (made == 0) return 0;
  struct stat st;
  const long err =
      sys::invoke(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW);
  return err != 0 ? made : judge(st);
}

long open_directory(const char* path) {
  const long fd =
      sys::invoke(SYS_openat, AT_FDCWD, path,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0L);
  if (sys::failed(fd)) return fd;
  struct stat st;
  long err = sys::invoke(SYS_fstat, fd, &st);
  if (err == 0) err = judge(st);
  if (err == 0) return fd;
  sys::invoke(SYS_close, fd);
  return err;
}

long write_new(long directory, const char* name, const Text& text) {
  sys::invoke(SYS_unlinkat, directory, name, 0L);  // of a process that died
  const long fd = sys::invoke(SYS_openat, directory, name,
                              O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600L);
  if (sys::failed(fd)) return fd;
  const long err =
      quiet_write_all(static_cast<int>(fd), text.c_str(), text.size());
  sys::invoke(SYS_close, fd);
  return err;
}

}  // namespace

void Live::prepare(const Config& config) {
  if (!config.live) return;
  TextBuffer<kMaxPath> path;
  live_directory(config, path);
  const long err =
      path.truncated() ? -ENAMETOOLONG : make_directory(path.c_str());
  wanted_ = err == 0;
  if (wanted_) return;
  TextBuffer<512> m;
  m << "RACACHE_LIVE: nothing is written to ";
  m.printable(path.c_str(), 300) << ": ";
  m.error(static_cast<int>(-err));
  log::line(LogLevel::kWarn, m);
}

void Live::start(Engine& engine) {
  if (!wanted_) return;
  engine_ = &engine;
  tid_ = start_thread("racache-live", main, this);
}

void Live::main(void* argument) { static_cast<Live*>(argument)->run(); }

void Live::run() {
  const MappedBuffer room(sizeof(Snapshot));
  if (!room.valid()) return;
  while (over_.load(std::memory_order_acquire) == 0) {
    orders_.obey();
    // What fails now may work again: a full disk, say.
    (void)publish(*new (room.data()) Snapshot{});
    if (!orders_.any()) sys::futex_wait(&over_, 0, &kPeriod);
  }
}

long Live::publish(Snapshot& snapshot) {
  const Config& config = engine_->config;
  TextBuffer<kMaxPath> path;
  live_directory(config, path);
  if (path.truncated()) return -ENAMETOOLONG;
  const MappedBuffer room(stats::room_for(config));
  if (!room.valid()) return -ENOMEM;
  Text text(room.data(), room.size());
  engine::fill_snapshot(*engine_, snapshot);
  stats::format_json(snapshot, config, text);
  Name file;
  Name temporary;
  append_names(engine_->pid, file, temporary);
  const long directory = open_directory(path.c_str());
  if (sys::failed(directory)) return directory;
  long err = write_new(directory, temporary.c_str(), text);
  if (err == 0) {
    err = sys::invoke(SYS_renameat, directory, temporary.c_str(), directory,
                      file.c_str());
  }
  // remove() may have come before the file that it was to remove.
  if (over_.load(std::memory_order_seq_cst) != 0) {
    sys::invoke(SYS_unlinkat, directory, file.c_str(), 0L);
  }
  sys::invoke(SYS_close, directory);
  return err;
}

bool Live::follow(const Order& order) {
  return tid_ <= 0 ||
         orders_.give(order, [this] { sys::futex_wake(&over_, 1); });
}

void Live::remove() {
  if (tid_ <= 0) return;
  over_.store(1, std::memory_order_seq_cst);
  Name file;
  Name temporary;
  append_names(engine_->pid, file, temporary);
  TextBuffer<kMaxPath> path;
  live_directory(engine_->config, path);
  path << '/' << file.c_str();
  if (!path.truncated()) {
    sys::invoke(SYS_unlinkat, AT_FDCWD, path.c_str(), 0L);
  }
}

void Live::stop() {
  if (tid_ <= 0) return;
  remove();
  do {
    sys::futex_wake(&over_, 1);
    sys::invoke(SYS_sched_yield);
  } while (sys::invoke(SYS_tgkill, engine_->pid, tid_, 0) == 0);
}

}  // namespace racache
