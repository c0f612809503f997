/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the process's random hash key before main. */
#include "util/keyed_hash.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

struct keyed_hash_key keyed_hash_key;

__attribute__((constructor)) static void choose_key(void)
{
    /* The kernel gave the process 16 random bytes at its start. libc uses the first 8. */
    const char *random = (const char *)getauxval(AT_RANDOM);
    if (getrandom(&keyed_hash_key, sizeof(keyed_hash_key), GRND_NONBLOCK) !=
            sizeof(keyed_hash_key) &&
        random != NULL) {
        memcpy(&keyed_hash_key.left, random + 8, sizeof(keyed_hash_key.left));
        keyed_hash_key.right = keyed_hash_key.left * UINT64_C(0xD6E8FEB86659FD93);
    }
    keyed_hash_key.right |= 1;
}
