#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The unwinder on aarch64, under qemu: skipped without Debian's cross compiler.
set -e
command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null || exit 77
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
client="$top/src/client"
aarch64-linux-gnu-gcc -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -I"$top/src" -o "$work/walk" \
    "$top/tests/unwind-check/walk_aarch64.c" "$client"/unwind/cfi.c "$client"/unwind/cfi_expression.c "$client"/unwind/cfi_step.c \
    "$client"/elf_lookup.c "$client"/modules/module.c "$client"/modules/module_maps.c "$client"/modules/module_object.c \
    "$client"/system.c "$client"/unwind/unwind.c "$client"/unwind/unwind_memory.c "$client"/unwind/unwind_rule.c "$client"/unwind/unwind_stack.c
timeout 60 qemu-aarch64 -L /usr/aarch64-linux-gnu "$work/walk"
