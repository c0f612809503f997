/* SPDX-License-Identifier: Apache-2.0 */
/* Signals, descriptors and limits. */
#include "recorder/service/session_confine.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/close_descriptors.h"

/* A session of root may use a quarter of the machine's memory. */
#define ROOT_MEMORY_PART 4

/* While a session records it has this much of its memory. The rest is for its last dump: a session
 * that looks at its memory too late, on a busy machine, must not lose its profile. */
#define MEMORY_RECORDING_PERCENT 85

/* If the machine runs out of memory, the kernel kills sessions before the programs that they
 * profile (0 to 1000). */
#define OOM_SCORE "500"

/* Sanitizers map terabytes and report on standard error. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

void session_confine_signals(void)
{
    static const int left[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE};
    sigset_t none;
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
        signal(left[i], SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void session_confine_descriptors(int kept[], size_t count)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    int standard = IS_SANITIZED ? STDOUT_FILENO : STDERR_FILENO;
    for (int fd = 0; nowhere >= 0 && fd <= standard; fd++)
        dup2(nowhere, fd);
    unsigned from = STDERR_FILENO + 1;
    for (size_t done = 0; done <= count; done++) {
        unsigned next = ~0U;
        for (size_t i = 0; i < count; i++) {
            if (kept[i] >= (int)from && (unsigned)kept[i] < next)
                next = (unsigned)kept[i];
        }
        if (next > from)
            close_descriptors(from, next == ~0U ? ~0U : next - 1);
        if (next == ~0U)
            return;
        from = next + 1;
    }
}

uint64_t session_confine_resources(const struct access_policy *policy, bool is_root)
{
    const struct rlimit no_core = {0, 0};
    struct rlimit memory;
    setrlimit(RLIMIT_CORE, &no_core);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t wrote = write(fd, OOM_SCORE, strlen(OOM_SCORE));
        (void)wrote;
        close(fd);
    }
    rlim_t bytes = (rlim_t)policy->session_memory_mb << 20;
    /* A hostile program that root profiles must not use up the machine's memory. */
    if (is_root)
        bytes = (rlim_t)sysconf(_SC_PHYS_PAGES) / ROOT_MEMORY_PART * (rlim_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0 || IS_SANITIZED || getrlimit(RLIMIT_DATA, &memory) < 0)
        return bytes;
    if (memory.rlim_max == RLIM_INFINITY || memory.rlim_max > bytes)
        memory.rlim_max = bytes;
    memory.rlim_cur = memory.rlim_max / 100 * MEMORY_RECORDING_PERCENT;
    setrlimit(RLIMIT_DATA, &memory);
    return bytes;
}

void session_confine_release_memory(void)
{
    struct rlimit memory;
    if (getrlimit(RLIMIT_DATA, &memory) < 0)
        return;
    memory.rlim_cur = memory.rlim_max;
    setrlimit(RLIMIT_DATA, &memory);
}
