/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library for Python's ctypes.PyDLL: pass_on() lets another thread run Python code with the
 * caller's thread state, and allocates meanwhile.
 */
#include <pthread.h>
#include <stdlib.h>

void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *state);
int PyRun_SimpleStringFlags(const char *code, void *flags);
void pass_on(const char *code);

static void *state;
static const char *code_of_other;
static volatile int is_over;

static void *run(void *unused)
{
    (void)unused;
    PyEval_RestoreThread(state);
    PyRun_SimpleStringFlags(code_of_other, NULL);
    PyEval_SaveThread();
    is_over = 1;
    return NULL;
}

void pass_on(const char *code)
{
    pthread_t other;
    code_of_other = code;
    is_over = 0;
    state = PyEval_SaveThread();
    if (pthread_create(&other, NULL, run, NULL) != 0)
        abort();
    while (!is_over) {
        void *block = malloc(3000);
        __asm__ volatile("" : : "r"(block) : "memory");
        free(block);
    }
    pthread_join(other, NULL);
    PyEval_RestoreThread(state);
}
