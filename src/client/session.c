/*
 * See session.h. The handshake runs inside the target's first allocation: raw
 * system calls only, two descriptors open for some tens of microseconds, and a
 * time limit on every wait.
 */
#include "client/session.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "client/client.h"
#include "client/clock.h"
#include "client/live_set.h"
#include "client/real.h"
#include "client/sample.h"
#include "client/stack_cache.h"
#include "client/system.h"
#include "client/thread_slot.h"
#include "client/unwind.h"
#include "wire/handshake.h"
#include "wire/sampling.h"

static struct client_live live_at_start; /* until there is wiped memory */
struct client client = {.live = &live_at_start};

struct ring_thread *client_no_slot;
__thread uintptr_t client_cell_distance;

static struct sampler_rule rule;
static bool is_set_up; /* stays true in a forked child */
static char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];

/* libc's own pointer may not be set yet when the loader allocates: read the
 * environment where the kernel put it. */
extern void *__libc_stack_end;

static const char *environment_get(const char *name)
{
    size_t length = strlen(name);
    const uintptr_t *word = __libc_stack_end;
    const char *const *entry = (const char *const *)(word + 1 + word[0] + 1);
    for (; *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

const struct sampler_rule *session_rule(void)
{
    return &rule;
}

/* Memory and tables that every image needs once. */
static int set_up(void)
{
    struct client_live *live = system_map_wiped(sizeof(*live));
    if (live == NULL)
        return -ENOMEM;
    if (thread_slot_init() != 0 || stack_cache_init() != 0 || sample_init() != 0 ||
        unwind_init() != 0)
        return -ENOMEM;
    clock_init();
    const char *path = environment_get(HANDSHAKE_SOCKET_ENV);
    if (path != NULL && strlen(path) < sizeof(socket_path))
        strcpy(socket_path, path);
    live->state = CLIENT_CONNECTING;
    client.live = live;
    is_set_up = true;
    return 0;
}

/* A connected socket, or a negative errno. */
static int connect_to_daemon(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, socket_path);
    int fd = (int)system_call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    struct timeval limit = {.tv_sec = HANDSHAKE_TIMEOUT_MS / 1000,
                            .tv_usec = HANDSHAKE_TIMEOUT_MS % 1000 * 1000};
    system_call(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    system_call(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    long result = system_call(SYS_connect, fd, &address, sizeof(address));
    if (result < 0) {
        system_call(SYS_close, fd);
        return (int)result;
    }
    return fd;
}

/* Receives the reply and the ring's descriptor (-1: none came). */
static int receive_reply(int socket, struct handshake_reply *reply, int *ring_fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec vector = {.iov_base = reply, .iov_len = sizeof(*reply)};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    *ring_fd = -1;
    long got;
    do {
        got = system_call(SYS_recvmsg, socket, &message, MSG_CMSG_CLOEXEC);
    } while (got == -EINTR);
    if (message.msg_controllen >= CMSG_LEN(sizeof(int)) &&
        control.header.cmsg_level == SOL_SOCKET && control.header.cmsg_type == SCM_RIGHTS)
        memcpy(ring_fd, CMSG_DATA(&control.header), sizeof(int));
    if (got < 0)
        return (int)got;
    if (got != sizeof(*reply) || reply->magic != HANDSHAKE_MAGIC ||
        reply->version != HANDSHAKE_VERSION)
        return -EPROTO;
    return 0;
}

static void send_hello(int socket, enum handshake_origin origin)
{
    struct handshake_hello hello = {
        .magic = HANDSHAKE_MAGIC,
        .version = HANDSHAKE_VERSION,
        .origin = origin,
        .tid = (uint32_t)system_call(SYS_gettid),
        .pid = (uint32_t)client.pid,
        .parent_pid = (uint32_t)system_call(SYS_getppid),
    };
    const char *allocator = real_allocator_name();
    size_t length = strlen(allocator);
    memcpy(hello.allocator, allocator,
           length < sizeof(hello.allocator) ? length : sizeof(hello.allocator) - 1);
    system_call(SYS_sendto, socket, &hello, sizeof(hello), MSG_NOSIGNAL, NULL, 0);
}

/* Maps control and threads once and data twice in a row. */
static int map_ring(int fd, uint64_t data_bytes)
{
    size_t total = RING_DATA_OFFSET + 2 * data_bytes;
    long base = system_call(SYS_mmap, NULL, total, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base < 0 && base > -4096)
        return (int)base;
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
    long first =
        system_call(SYS_mmap, base, RING_DATA_OFFSET + data_bytes, protection, flags, fd, 0);
    long second = system_call(SYS_mmap, base + (long)(RING_DATA_OFFSET + data_bytes), data_bytes,
                              protection, flags, fd, RING_DATA_OFFSET);
    const struct ring_control *control = (void *)base;
    if (first != base || second < 0 || control->magic != RING_MAGIC ||
        control->version != RING_VERSION || control->data_bytes != data_bytes) {
        system_call(SYS_munmap, base, total);
        return -ENOMEM;
    }
    client.control = (void *)base;
    client.threads = (void *)(base + RING_THREADS_OFFSET);
    client.data = (void *)(base + RING_DATA_OFFSET);
    client.data_mask = data_bytes - 1;
    return 0;
}

/* A private arena in place of the ring's: threads count there, nobody reads. */
static int map_dormant_arena(void)
{
    void *arena = system_map_wiped(RING_DATA_OFFSET);
    if (arena == NULL)
        return -ENOMEM;
    client.control = arena;
    client.threads = (void *)((char *)arena + RING_THREADS_OFFSET);
    client.data = NULL;
    return 0;
}

static bool reply_is_sound(const struct handshake_reply *reply)
{
    return reply->verdict == HANDSHAKE_ACCEPTED && reply->interval_bytes >= 1 &&
           reply->data_bytes >= RING_DATA_BYTES_MIN && reply->data_bytes <= RING_DATA_BYTES_MAX &&
           (reply->data_bytes & (reply->data_bytes - 1)) == 0;
}

static int start_session(const struct handshake_reply *reply, int ring_fd)
{
    rule =
        (struct sampler_rule){reply->interval_bytes, sampling_certain_bytes(reply->interval_bytes)};
    client.start_ms = reply->start_ms;
    client.block_timeout_us = reply->block_client_timeout_us;
    int result = map_ring(ring_fd, reply->data_bytes);
    if (result == 0)
        result = live_set_init(&sample_live_set, reply->interval_bytes);
    if (result == 0)
        store_release(&client.control->client_state, RING_CLIENT_RUNNING);
    return result;
}

/* Asks the daemon; 0: the session is joined. */
static int shake_hands(enum handshake_origin origin)
{
    if (socket_path[0] == '\0')
        return -ENOENT;
    int socket = connect_to_daemon();
    if (socket < 0)
        return socket;

    struct handshake_reply reply = {0};
    struct ucred daemon = {0};
    socklen_t length = sizeof(daemon);
    int ring_fd = -1;
    send_hello(socket, origin);
    int result = receive_reply(socket, &reply, &ring_fd);
    if (result == 0) {
        client.flags = reply.flags;
        if (system_call(SYS_getsockopt, socket, SOL_SOCKET, SO_PEERCRED, &daemon, &length) == 0)
            client.daemon_pid = daemon.pid;
        result = reply_is_sound(&reply) && ring_fd >= 0 ? start_session(&reply, ring_fd) : -EPERM;
    }
    if (ring_fd >= 0)
        system_call(SYS_close, ring_fd);
    system_call(SYS_close, socket);
    return result;
}

/* The ring of the parent is no business of a child's. */
static void leave_parents_session(void)
{
    if (client.data != NULL)
        system_call(SYS_munmap, client.control, RING_DATA_OFFSET + 2 * (client.data_mask + 1));
    else if (client.control != NULL)
        system_call(SYS_munmap, client.control, RING_DATA_OFFSET);
    client.control = NULL;
    client.data = NULL;
}

void session_join(void)
{
    uint32_t state = CLIENT_NEW;
    if (!cas_acq_rel(&client.live->state, &state, CLIENT_CONNECTING))
        return;
    /* Cleared by what follows where libc's headers leave no other way. */
    int saved_errno = errno;
    bool forked = is_set_up;
    bool wants_hello = true;
    client.pid = (int32_t)system_call(SYS_getpid);
    if (system_call(SYS_getrandom, &client.seed, sizeof(client.seed), 1 /* GRND_NONBLOCK */) < 0)
        client.seed = clock_now_us() ^ ((uint64_t)client.pid << 40) ^ (uintptr_t)&saved_errno;
    if (forked) {
        wants_hello = (client.flags & HANDSHAKE_HELLO_AFTER_FORK) != 0;
        leave_parents_session();
    } else if (set_up() != 0) {
        errno = saved_errno;
        return; /* stays CONNECTING: every allocation passes through */
    }
    enum client_state next = CLIENT_ACTIVE;
    if (!wants_hello || shake_hands(forked ? HANDSHAKE_FORK : HANDSHAKE_STARTUP) != 0) {
        next = CLIENT_DORMANT;
        if (map_dormant_arena() != 0)
            next = CLIENT_CONNECTING;
    }
    store_release(&client.live->state, next);
    errno = saved_errno;
}
