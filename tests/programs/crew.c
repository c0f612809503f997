/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Permanent threads that obey commands from standard input, one a line, each answered with "ok":
 *
 *   N...   these threads allocate and free CALLS blocks, one thread after the other
 *   all    all threads do so at once
 *   who    answer with the threads' ids
 */
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "truth.h"

enum { CREW = 8, CALLS = 2000, BYTES = 100 };

static struct member {
    sem_t begin, end;
    int tid;
} crew[CREW];

static CALLSITE void *crew_block(size_t size)
{
    return kept(malloc(size));
}

static void *work(void *argument)
{
    struct member *self = argument;
    self->tid = gettid();
    for (;;) {
        sem_post(&self->end);
        sem_wait(&self->begin);
        for (int i = 0; i < CALLS; i++)
            free(crew_block(BYTES));
    }
    return NULL;
}

static void begin(int number)
{
    sem_post(&crew[number].begin);
}

static void await(int number)
{
    sem_wait(&crew[number].end);
}

static void all(void)
{
    for (int i = 0; i < CREW; i++)
        begin(i);
    for (int i = 0; i < CREW; i++)
        await(i);
}

static void in_turn(const char *digits)
{
    for (; *digits >= '0' && *digits < '0' + CREW; digits++) {
        begin(*digits - '0');
        await(*digits - '0');
    }
}

int main(void)
{
    char line[64], answer[128];
    ssize_t got;
    for (int i = 0; i < CREW; i++) {
        pthread_t thread;
        sem_init(&crew[i].begin, 0, 0);
        sem_init(&crew[i].end, 0, 0);
        require(!pthread_create(&thread, NULL, work, &crew[i]));
        await(i);
    }
    while ((got = read(STDIN_FILENO, line, sizeof(line) - 1)) > 0) {
        line[got] = 0;
        strcpy(answer, "ok\n");
        if (strcmp(line, "all\n") == 0)
            all();
        else if (strcmp(line, "who\n") == 0)
            snprintf(answer, sizeof(answer), "%d %d %d %d %d %d %d %d\n", crew[0].tid, crew[1].tid,
                     crew[2].tid, crew[3].tid, crew[4].tid, crew[5].tid, crew[6].tid, crew[7].tid);
        else
            in_turn(line);
        if (write(STDOUT_FILENO, answer, strlen(answer)) < 0)
            return 1;
    }
    return 0;
}
