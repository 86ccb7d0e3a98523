/* SPDX-License-Identifier: MIT */
/* Signal actions by all of their names, after the cache has made its own for
 * two of the signals. */
#pragma once

#include "show.h"

static volatile int ran;
static void handler(int number) { ran = ran * 100 + number; }

static const char* name_of(handler_t action) {
  if (action == SIG_DFL) return "default";
  if (action == SIG_IGN) return "ignored";
  if (action == SIG_ERR) return "error";
  return action == handler ? "handler" : "something else";
}

static void show_action(int number) {
  struct sigaction now;
  memset(&now, 0, sizeof now);
  SHOW(__sigaction(number, NULL, &now));
  printf("signal %d: %s, flags %x, mask", number, name_of(now.sa_handler),
         (unsigned)now.sa_flags);
  for (int i = 1; i < 65; ++i) {
    if (sigismember(&now.sa_mask, i) == 1) printf(" %d", i);
  }
  puts("");
}

#define SHOW_OLD(call)                                            \
  do {                                                            \
    errno = 77;                                                   \
    const char* r_ = name_of(call);                               \
    printf("%s of %d: %s, errno %d\n", #call, number, r_, errno); \
    show_action(number);                                          \
  } while (0)

static void by_signal(handler_t (*set)(int, handler_t), int number) {
  SHOW_OLD(set(number, handler));
  ran = 0;
  SHOW(raise(number));
  SHOW(ran);
  SHOW_OLD(set(number, SIG_IGN));
  SHOW(raise(number));
  SHOW_OLD(set(number, SIG_ERR));
  SHOW_OLD(set(number, SIG_DFL));
}

static void by_sigaction(int number) {
  struct sigaction wanted, old;
  memset(&wanted, 0, sizeof wanted);
  wanted.sa_handler = handler;
  wanted.sa_flags = SA_RESETHAND | SA_NODEFER | SA_RESTART;
  sigaddset(&wanted.sa_mask, SIGUSR2);
  sigaddset(&wanted.sa_mask, SIGKILL);
  SHOW(__sigaction(number, &wanted, &old));
  SHOW_OLD(old.sa_handler);
  ran = 0;
  SHOW(raise(number));
  SHOW(ran);
  show_action(number);
  wanted.sa_handler = SIG_IGN;
  wanted.sa_flags = 0;
  SHOW(__sigaction(number, &wanted, NULL));
  show_action(number);
  wanted.sa_handler = SIG_DFL;
  SHOW(__sigaction(number, &wanted, NULL));
}

static void actions(void) {
  const int numbers[] = {SIGUSR1, SIGSEGV, SIGBUS};
  for (int i = 0; i < 3; ++i) {
    by_signal(signal, numbers[i]);
    by_signal(bsd_signal, numbers[i]);
    by_signal(ssignal, numbers[i]);
    by_sigaction(numbers[i]);
  }
  struct sigaction one = {0};
  const int bad[] = {-1, 0, SIGKILL, SIGSTOP, 32, 65};
  for (int i = 0; i < 6; ++i) {
    int number = bad[i];
    SHOW(__sigaction(number, &one, NULL));
    SHOW(bsd_signal(number, handler) == SIG_ERR);
    SHOW(ssignal(number, SIG_DFL) == SIG_ERR);
  }
}
