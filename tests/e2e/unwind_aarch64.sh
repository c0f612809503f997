#!/bin/sh
# The unwinder on aarch64, under qemu: skipped without Debian's cross compiler.
set -e
command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null || exit 77
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
client="$top/src/client"
aarch64-linux-gnu-gcc -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -I"$top/src" -o "$work/walk" \
    "$top/tests/unwind-check/walk_aarch64.c" "$client"/cfi.c "$client"/cfi_expression.c \
    "$client"/elf_lookup.c "$client"/module.c "$client"/module_maps.c "$client"/module_object.c \
    "$client"/system.c "$client"/unwind.c "$client"/unwind_memory.c "$client"/unwind_rule.c "$client"/unwind_stack.c
timeout 60 qemu-aarch64 -L /usr/aarch64-linux-gnu "$work/walk"
