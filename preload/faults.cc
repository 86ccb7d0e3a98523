// SPDX-License-Identifier: MIT
#include "preload/faults.h"

#include <ucontext.h>
#include <cerrno>
#include <csignal>
#include <new>

#include "core/copy.h"
#include "core/lock.h"
#include "preload/fd_table.h"
#include "preload/real.h"

namespace racache::preload {
namespace faults {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS};

// The program's actions. Written under g_lock with signals blocked; read by
// handlers without it, hence the two copies and the turn.
struct Action {
  struct sigaction copies[2];
  std::atomic<uint32_t> turn;
  // Again if the copy was rewritten meanwhile, which takes two changes.
  struct sigaction get() const {
    for (;;) {
      const uint32_t seen = turn.load(std::memory_order_acquire);
      const struct sigaction copy = copies[seen & 1];
      std::atomic_thread_fence(std::memory_order_acquire);
      if (turn.load(std::memory_order_relaxed) == seen) return copy;
    }
  }
  void set(const struct sigaction& action) {
    const uint32_t next = turn.load(std::memory_order_relaxed) + 1;
    copies[next & 1] = action;
    turn.store(next, std::memory_order_release);
  }
};
constinit Action g_actions[2] = {};
constinit std::atomic<bool> g_armed{false};
constinit Lock g_lock;

Action& action_of(int signal) { return g_actions[signal == SIGBUS]; }

bool is_ours(int signal) { return signal == SIGSEGV || signal == SIGBUS; }

uintptr_t* instruction_of(void* context) {
  mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<uintptr_t*>(&machine.gregs[REG_RIP]);
#else
  return reinterpret_cast<uintptr_t*>(&machine.pc);
#endif
}

// What the kernel does where there is no handler: a fault comes again, to the
// default action; a signal that somebody sent is sent again.
void take_default(int signal, const siginfo_t* info) {
  struct sigaction fallback = {};
  fallback.sa_handler = SIG_DFL;
  real::sigaction(signal, &fallback, nullptr);
  if (info->si_code <= 0) {
    sys::invoke(SYS_tgkill, sys::getpid(), sys::gettid(), signal);
  }
}

void forward(int signal, siginfo_t* info, void* context) {
  Action& action = action_of(signal);
  const struct sigaction now = action.get();
  const bool sent = info->si_code <= 0;
  if (now.sa_handler == SIG_IGN && sent) return;
  if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) {
    take_default(signal, info);
    return;
  }
  if ((now.sa_flags & SA_RESETHAND) != 0) {
    struct sigaction reset = now;  // flags and mask stay, as in the kernel
    reset.sa_handler = SIG_DFL;
    SignalGuard signals;
    LockGuard guard(g_lock);
    action.set(reset);
  }
  if ((now.sa_flags & SA_SIGINFO) != 0) {
    now.sa_sigaction(signal, info, context);
  } else {
    now.sa_handler(signal);
  }
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (resume_copy(instruction_of(context))) return;
  forward(signal, info, context);
}

// Ours in the program's manner: its stack, its mask, its flags.
struct sigaction in_manner_of(const struct sigaction& theirs) {
  struct sigaction ours = theirs;
  ours.sa_sigaction = on_fault;
  ours.sa_flags = (theirs.sa_flags & ~SA_RESETHAND) | SA_SIGINFO;
  return ours;
}

int install(int signal, const struct sigaction& theirs) {
  struct sigaction ours = in_manner_of(theirs);
  if (theirs.sa_handler == SIG_DFL || theirs.sa_handler == SIG_IGN) {
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESTART;
    sigemptyset(&ours.sa_mask);
  }
  return real::sigaction(signal, &ours, nullptr);
}

// The program's action as the kernel would keep it: libc adds its restorer, and
// neither flags that the kernel does not know nor signals that cannot be
// blocked stay. The kernel tells, by way of an action of ours.
struct sigaction kept(int signal, const struct sigaction& theirs) {
  constexpr int kOurs = SA_RESETHAND | SA_SIGINFO;
  const struct sigaction ours = in_manner_of(theirs);
  struct sigaction now;
  if (real::sigaction(signal, &ours, nullptr) != 0) return theirs;
  if (real::sigaction(signal, nullptr, &now) != 0) return theirs;
  now.sa_flags = (now.sa_flags & ~kOurs) | (theirs.sa_flags & kOurs);
  now.sa_sigaction = theirs.sa_sigaction;
  return now;
}

// sigaction(2) of the two, as the program sees it.
int change(int signal, const struct sigaction* action, struct sigaction* old) {
  struct sigaction wanted;
  if (action != nullptr) wanted = *action;  // may fault, before the lock
  struct sigaction before;
  {
    SignalGuard signals;
    LockGuard guard(g_lock);
    before = action_of(signal).get();
    if (action != nullptr) {
      action_of(signal).set(kept(signal, wanted));
      install(signal, wanted);
    }
  }
  if (old != nullptr) *old = before;
  return 0;
}

}  // namespace

void arm() {
  if (RACACHE_LIKELY(g_armed.load(std::memory_order_acquire))) return;
  SignalGuard signals;
  LockGuard guard(g_lock);
  if (g_armed.load(std::memory_order_relaxed)) return;
  for (int signal : kSignals) {
    struct sigaction theirs;
    if (real::sigaction(signal, nullptr, &theirs) != 0) return;
    action_of(signal).set(theirs);
    install(signal, theirs);
  }
  g_armed.store(true, std::memory_order_release);
}

// In a vfork child too, which has actions of its own: they are still ours.
bool Inherited::let_ignore(bool in_kernel) {
  if (RACACHE_LIKELY(!g_armed.load(std::memory_order_acquire))) return false;
  bool changed = false;
  for (int signal : kSignals) {
    const struct sigaction theirs = action_of(signal).get();
    if (theirs.sa_handler != SIG_IGN) continue;
    changed = true;
    if (in_kernel) {
      real::sigaction(signal, &theirs, nullptr);
    } else {
      install(signal, theirs);
    }
  }
  return changed;
}

void forget_threads() { new (&g_lock) Lock(); }

// A vfork child has its own table of actions, but our memory: hands off.
bool answers_for(int signal) {
  return is_ours(signal) && g_armed.load(std::memory_order_acquire) &&
         in_own_process();
}

}  // namespace faults

namespace hook {

int sigaction(int signal, const struct sigaction* action,
              struct sigaction* old) {
  if (RACACHE_LIKELY(!faults::answers_for(signal))) {
    return real::sigaction(signal, action, old);
  }
  return faults::change(signal, action, old);
}

// BSD semantics, as libc's: restarting, the signal blocked meanwhile.
handler_type* signal(int number, handler_type* handler) {
  if (RACACHE_LIKELY(!faults::answers_for(number))) {
    return real::signal(number, handler);
  }
  if (handler == SIG_ERR) {
    errno = EINVAL;
    return SIG_ERR;
  }
  struct sigaction action = {};
  struct sigaction old;
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, number);
  faults::change(number, &action, &old);
  return old.sa_handler;
}

}  // namespace hook

RACACHE_DEFINE_TWIN(__sigaction, sigaction)
RACACHE_DEFINE_TWIN(bsd_signal, signal)
RACACHE_DEFINE_TWIN(ssignal, signal)

}  // namespace racache::preload
