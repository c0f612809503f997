/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HeapProfile_intern(): the same copy for equal texts, from any thread, up to 65,536 of them.
 * Aborts on a violation.
 */
#include <pthread.h>
#include <string.h>

#include "heap_profile.h"
#include "truth.h"

enum { THREADS = 4, TEXTS = 10000, TEXTS_MAX = 65536, LENGTH_MAX = 1023 };

static const char *found[THREADS][TEXTS];

static void write_text(char *to, size_t size, int number)
{
    snprintf(to, size, "text %d", number);
}

static void *intern_all(void *row)
{
    const char **texts = row;
    for (int i = 0; i < TEXTS; i++) {
        char text[32];
        write_text(text, sizeof(text), i);
        texts[i] = HeapProfile_intern(text);
        require(texts[i] != NULL && texts[i] != text && strcmp(texts[i], text) == 0);
    }
    return NULL;
}

static void intern_from_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        require(pthread_create(&threads[i], NULL, intern_all, found[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        require(memcmp(found[0], found[i], sizeof(found[0])) == 0);
}

static void intern_strange_texts(void)
{
    static char text[3000], same[3000];
    memset(text, 'a', sizeof(text) - 1);
    memset(same, 'a', LENGTH_MAX + 10);
    const char *copy = HeapProfile_intern(text);
    require(copy != NULL && strlen(copy) == LENGTH_MAX && HeapProfile_intern(same) == copy);
    same[LENGTH_MAX - 1] = 0;
    require(HeapProfile_intern(same) != copy);
    require(HeapProfile_intern(NULL) == NULL);
    require(HeapProfile_intern("")[0] == 0 && HeapProfile_intern("") == HeapProfile_intern(""));
}

/* At the limit, the existing copies stay. */
static void intern_too_many(void)
{
    int count = TEXTS;
    for (; count < 2 * TEXTS_MAX; count++) {
        char text[32];
        write_text(text, sizeof(text), count);
        if (HeapProfile_intern(text) == NULL)
            break;
    }
    require(count + 3 == TEXTS_MAX); /* and the three special texts */
    for (int i = 0; i < TEXTS; i++) {
        char text[32];
        write_text(text, sizeof(text), i);
        require(HeapProfile_intern(text) == found[0][i]);
    }
}

int main(void)
{
    intern_from_threads();
    intern_strange_texts();
    intern_too_many();
    puts("done");
    return 0;
}
