/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the process's random hash key before main. */
#include "util/keyed_hash.h"

#include <sys/random.h>

#include "util/seed.h"

struct keyed_hash_key keyed_hash_key;

__attribute__((constructor)) static void choose_key(void)
{
    if (getrandom(&keyed_hash_key, sizeof(keyed_hash_key), GRND_NONBLOCK) !=
        sizeof(keyed_hash_key)) {
        keyed_hash_key.left = seed_random();
        keyed_hash_key.right = seed_random() * UINT64_C(0xD6E8FEB86659FD93);
    }
    keyed_hash_key.right |= 1;
}
