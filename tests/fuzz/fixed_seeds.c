/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed key for the hash tables of a fuzzer: an input takes the same path each time. So a finding
 * is reproducible, and a test makes the same inputs each time.
 */
#include <stddef.h>

#include "util/keyed_hash.h"

/* NULL in fuzzers whose code has no such table. */
extern struct keyed_hash_key keyed_hash_key __attribute__((weak));

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    if (&keyed_hash_key != NULL)
        keyed_hash_key =
            (struct keyed_hash_key){UINT64_C(0x5bd1e9955bd1e995), UINT64_C(0xd6e8feb86659fd93)};
    return 0;
}
