# SPDX-License-Identifier: MIT
# The preload list is for the victim only, which calls every export.
preload=$LD_PRELOAD; unset LD_PRELOAD
sh "$(dirname "$0")/../calls_all.sh" "$1" || exit 1
LD_PRELOAD=$preload exec "$1"
