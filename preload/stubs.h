// SPDX-License-Identifier: MIT
// What the assembly stubs and C++ agree on. Included by both.
#pragma once

// System call numbers below this may be routed: one byte each.
#define RACACHE_ROUTES 512
#define RACACHE_ROUTE_BODY 1  /* racache_routed_syscall makes it */
#define RACACHE_ROUTE_CLONE 2 /* racache_before_clone, then the real one */
