// SPDX-License-Identifier: MIT
// Workloads of many threads on one descriptor, and of many processes on one
// file. All of them start at the same moment.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <barrier>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>

#include "cli/bench/workloads.h"

namespace racache::cli::bench {
namespace {

// for (o = 0; o < size; o += b) { readahead(fd, o, b); pread(fd, buf, b, o); }
void hint_and_read(int fd, const Job& job, char* buffer) {
  for (uint64_t at = 0; at < job.size; at += job.block) {
    if (readahead(fd, static_cast<off64_t>(at), job.block) != 0) {
      throw_errno("readahead");
    }
    read_at(fd, buffer, job.block, at);
  }
}

// In memory that the processes share. Sequentially consistent: no more is
// asked of it than a start and a count.
struct Shared {
  std::atomic<uint64_t> ready;  // workers
  std::atomic<uint64_t> done;   // of them: read everything
  std::atomic<bool> go;
  Usage usage[64];
};

Shared* shared_memory() {
  void* p = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw_errno("mmap");
  return new (p) Shared{};
}

// FADV_RANDOM, then preads of the whole file, once all others are ready.
void read_all(const Job& job, Shared& shared, Usage& used) {
  warm_up(job);
  char* buffer = touched_buffer(job.block);
  const int fd = open_file(job.file);
  ++shared.ready;
  while (!shared.go) usleep(100);
  const Usage before = usage_of(RUSAGE_SELF);
  posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  for (uint64_t at = 0; at < job.size; at += job.block) {
    read_at(fd, buffer, job.block, at);
  }
  used = usage_of(RUSAGE_SELF) - before;
  ++shared.done;
}

[[noreturn]] void worker(const Job& job, Shared& shared, Usage& used) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // who says go may fail first
  int status = 0;
  try {
    read_all(job, shared, used);
  } catch (const std::exception& e) {
    dprintf(STDERR_FILENO, "%s\n", e.what());
    status = 1;
  }
  _exit(status);
}

// Until `count` is as large as it has to be; a worker that ends before has
// failed.
void await(const std::atomic<uint64_t>& count, uint64_t workers) {
  while (count != workers) {
    usleep(200);
    int status;
    if (waitpid(-1, &status, WNOHANG) > 0 && status != 0) {
      throw std::runtime_error("a worker failed");
    }
  }
}

void await_end() {
  while (wait(nullptr) > 0) {
  }
}

// Threads that begin at the same moment. What one of them throws is thrown by
// await_end().
class Crowd {
 public:
  // `work(buffer)` for each of the buffers.
  template <class Work>
  Crowd(const std::vector<char*>& buffers, const Work& work)
      : start_(static_cast<ptrdiff_t>(buffers.size()) + 1) {
    try {
      for (char* buffer : buffers) {
        threads_.emplace_back([this, buffer, work] { run(buffer, work); });
      }
    } catch (...) {  // those that are there do not wait for those that are not
      const size_t missing = buffers.size() - threads_.size();
      (void)start_.arrive(static_cast<ptrdiff_t>(missing) + 1);
      for (std::thread& t : threads_) t.join();
      throw;
    }
  }
  void begin() { start_.arrive_and_wait(); }
  void await_end() {
    for (std::thread& t : threads_) t.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  template <class Work>
  void run(char* buffer, const Work& work) {
    start_.arrive_and_wait();
    try {
      work(buffer);
    } catch (...) {
      const std::lock_guard guard(lock_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  std::barrier<> start_;
  std::mutex lock_;  // of failure_
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace

void threads_workload(const Job& job, Meter& meter) {
  const int fd = open_file(job.file);
  std::vector<char*> buffers(job.threads);
  for (char*& buffer : buffers) buffer = touched_buffer(job.block);
  Crowd crowd(buffers, [&](char* buffer) { hint_and_read(fd, job, buffer); });
  meter.begin();
  crowd.begin();
  crowd.await_end();
  meter.end();
  meter.set_operations(
      static_cast<double>(job.threads * (job.size / job.block)));
}

void processes_workload(const Job& job, Meter& meter) {
  Shared& shared = *shared_memory();
  const uint64_t workers = std::min<uint64_t>(job.threads, 64);
  for (uint64_t i = 0; i < workers; ++i) {
    const pid_t pid = fork();
    if (pid < 0) throw_errno("fork");
    if (pid == 0) worker(job, shared, shared.usage[i]);
  }
  await(shared.ready, workers);
  meter.begin();
  shared.go = true;
  await(shared.done, workers);
  meter.end();
  await_end();
  Usage sum;
  for (const Usage& u : shared.usage) {
    sum = {sum.user + u.user, sum.system + u.system, sum.faults + u.faults};
  }
  meter.set_usage(sum);
}

}  // namespace racache::cli::bench
