#!/bin/sh
# SPDX-License-Identifier: MIT
# Every read is compared with the kernel's.
RACACHE_VERIFY=1 exec "$@"
