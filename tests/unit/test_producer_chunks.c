/* SPDX-License-Identifier: Apache-2.0 */
/* The producer's chunks (src/recorder/tracing/producer/shared_buffer.h) and the packets in them
 * (chunk_writer.h), read by a service of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "recorder/sockets/daemon_client.h"
#include "recorder/sockets/run_directory.h"
#include "recorder/tracing/producer/chunk_writer.h"
#include "recorder/tracing/producer/instance.h"

#define BUFFER_PAGES 8
#define PACKETS_MAX 4096
#define BYTES_MAX ((size_t)4 << 20)

/* What the service keeps of a sequence: its packets, put together from fragments. */
struct service {
    struct shared_buffer *buffer;
    bool frees; /* chunks when they are complete */
    struct shared_chunk waiting[PACKETS_MAX];
    size_t waiting_count;
    uint32_t next_chunk_id;
    uint8_t bytes[BYTES_MAX];
    size_t used, ends[PACKETS_MAX], count;
    bool in_packet;
    size_t dropped, chunks, largest_chunk;
};

static struct service service;

static uint32_t read_size(const uint8_t **at)
{
    uint32_t size = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint8_t byte = *(*at)++;
        size |= (uint32_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80)
            break;
    }
    return size;
}

static void free_chunk(const struct shared_chunk *chunk)
{
    uint32_t *word = (uint32_t *)(void *)(service.buffer->bytes +
                                          (size_t)chunk->page * service.buffer->page_bytes);
    assert_int_equal(3, *word >> 2 * chunk->index & 3);
    *word &= ~(3u << 2 * chunk->index);
    if ((*word & 0x0fffffff) == 0)
        *word = 0;
}

static void take_chunk(void *context, const struct shared_chunk *chunk, uint32_t used,
                       uint32_t target_buffer)
{
    struct chunk_header header;
    (void)context;
    memcpy(&header, chunk->bytes, sizeof(header));
    assert_int_equal(7, target_buffer);
    assert_int_equal(5, header.writer_id);
    assert_int_equal(service.next_chunk_id++, header.chunk_id);
    assert_true(used <= chunk->size);
    unsigned count = header.packets & CHUNK_FRAGMENTS_MAX;
    unsigned flags = header.packets >> CHUNK_FLAGS_SHIFT;
    assert_true(count > 0);
    assert_int_equal(service.in_packet, (flags & CHUNK_FIRST_CONTINUES) != 0);
    const uint8_t *at = chunk->bytes + sizeof(header), *end = chunk->bytes + used;
    for (unsigned i = 0; i < count; i++) {
        uint32_t size = read_size(&at);
        if (size == 0x0fffffff) {
            assert_int_equal(1, count);
            service.used = service.count > 0 ? service.ends[service.count - 1] : 0;
            service.in_packet = false;
            service.dropped++;
            break;
        }
        assert_true(size > 0 && size <= (size_t)(end - at));
        assert_true(service.used + size <= BYTES_MAX);
        memcpy(service.bytes + service.used, at, size);
        service.used += size;
        at += size;
        service.in_packet = i == count - 1 && (flags & CHUNK_LAST_CONTINUES) != 0;
        if (!service.in_packet)
            service.ends[service.count++] = service.used;
    }
    if (service.dropped == 0)
        assert_ptr_equal(end, at);
    service.chunks++;
    service.largest_chunk =
        chunk->size > service.largest_chunk ? chunk->size : service.largest_chunk;
    if (service.frees)
        free_chunk(chunk);
    else
        service.waiting[service.waiting_count++] = *chunk;
}

static const struct chunk_writer_user user = {take_chunk, NULL};

/* Make a buffer and a writer, and empty the service. */
static struct chunk_writer begin(struct shared_buffer *buffer, uint32_t page_bytes,
                                 uint32_t page_count, bool frees)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(0, ftruncate(fd, (off_t)page_bytes * page_count));
    assert_int_equal(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
    assert_int_equal(0, shared_buffer_map(buffer, fd, page_bytes, NULL));
    memset(&service, 0, sizeof(service));
    service.buffer = buffer;
    service.frees = frees;
    return (struct chunk_writer){.buffer = buffer, .user = &user, .id = 5, .target_buffer = 7};
}

static void fill(uint8_t *bytes, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i * 7 + seed);
}

static void check_packet(size_t number, size_t length, unsigned seed)
{
    uint8_t *expected = malloc(length);
    fill(expected, length, seed);
    size_t start = number > 0 ? service.ends[number - 1] : 0;
    assert_int_equal(length, service.ends[number] - start);
    assert_memory_equal(expected, service.bytes + start, length);
    free(expected);
}

static enum chunk_writer_result put(struct chunk_writer *writer, size_t length, unsigned seed)
{
    uint8_t *packet = malloc(length);
    fill(packet, length, seed);
    enum chunk_writer_result result = chunk_writer_put(writer, packet, length, length);
    free(packet);
    return result;
}

static const uint32_t page_sizes[] = {4096, 8192, 16384, 32768, 65536};

static void test_layouts_divide_pages(void **state)
{
    static const unsigned counts[] = {0, 1, 2, 4, 7, 14};
    (void)state;
    for (size_t i = 0; i < sizeof(page_sizes) / sizeof(page_sizes[0]); i++) {
        for (unsigned layout = CHUNK_LAYOUT_1; layout < CHUNK_LAYOUTS; layout++) {
            uint32_t bytes = shared_buffer_chunk_bytes(page_sizes[i], layout);
            assert_int_equal(0, bytes % 4);
            assert_true(8 + bytes * counts[layout] <= page_sizes[i]);
            assert_true(8 + (bytes + 4) * counts[layout] > page_sizes[i]);
        }
    }
}

/* Chunks of all layouts are used, none overlaps another or leaves its page, and all are given out.
 */
static void test_every_chunk_is_given_once(void **state)
{
    static const unsigned counts[] = {0, 1, 2, 4, 7, 14};
    (void)state;
    for (size_t i = 0; i < sizeof(page_sizes) / sizeof(page_sizes[0]); i++) {
        for (unsigned layout = CHUNK_LAYOUT_1; layout < CHUNK_LAYOUTS; layout++) {
            struct shared_buffer buffer;
            struct shared_chunk chunk;
            begin(&buffer, page_sizes[i], BUFFER_PAGES, true);
            size_t wanted = shared_buffer_chunk_bytes(page_sizes[i], layout) - 8, given = 0;
            while (shared_buffer_acquire(&buffer, wanted, &chunk)) {
                assert_int_equal(layout, chunk.layout);
                size_t offset = (size_t)(chunk.bytes - buffer.bytes);
                assert_true(offset >= (size_t)chunk.page * page_sizes[i] + 8);
                assert_true(offset + chunk.size <= ((size_t)chunk.page + 1) * page_sizes[i]);
                for (uint32_t at = 0; at < chunk.size; at++)
                    assert_int_equal(0, chunk.bytes[at]);
                memset(chunk.bytes, 0xff, chunk.size);
                given++;
            }
            assert_int_equal(counts[layout] * BUFFER_PAGES, given);
            shared_buffer_close(&buffer);
        }
    }
}

static void test_packets_of_all_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(page_sizes) / sizeof(page_sizes[0]); i++) {
        struct shared_buffer buffer;
        struct chunk_writer writer = begin(&buffer, page_sizes[i], BUFFER_PAGES, true);
        size_t count = 0, length = 1;
        for (; length < 300000; length += length / 3 + 1)
            assert_int_equal(PACKET_WRITTEN, put(&writer, length, (unsigned)count++));
        assert_true(chunk_writer_flush(&writer));
        assert_int_equal(count, service.count);
        length = 1;
        for (size_t j = 0; j < count; j++, length += length / 3 + 1)
            check_packet(j, length, (unsigned)j);
        shared_buffer_close(&buffer);
    }
}

/* A little data takes a little chunk: the service keeps whole chunks. */
static void test_small_packets_take_small_chunks(void **state)
{
    struct shared_buffer buffer;
    struct chunk_writer writer = begin(&buffer, 4096, BUFFER_PAGES, true);
    (void)state;
    put(&writer, 100, 0);
    chunk_writer_flush(&writer);
    assert_int_equal(292, service.largest_chunk);
    put(&writer, 900, 1);
    chunk_writer_flush(&writer);
    assert_int_equal(1020, service.largest_chunk);
    put(&writer, 5000, 2);
    chunk_writer_flush(&writer);
    assert_int_equal(4088, service.largest_chunk);
    for (unsigned i = 0; i < 3; i++)
        check_packet(i, (size_t[]){100, 900, 5000}[i], i);
    shared_buffer_close(&buffer);
}

static void test_fragments_of_a_chunk_are_counted(void **state)
{
    struct shared_buffer buffer;
    struct chunk_writer writer = begin(&buffer, 65536, BUFFER_PAGES, true);
    uint8_t packet[3] = {1, 2, 3};
    (void)state;
    for (unsigned i = 0; i < 3000; i++)
        assert_int_equal(PACKET_WRITTEN, chunk_writer_put(&writer, packet, 3, 60000));
    chunk_writer_flush(&writer);
    assert_int_equal(3000, service.count);
    assert_int_equal(3, service.chunks);
    shared_buffer_close(&buffer);
}

/* A packet that is larger than the buffer waits, and goes on where it was. */
static void test_packet_larger_than_buffer(void **state)
{
    struct shared_buffer buffer;
    struct chunk_writer writer = begin(&buffer, 4096, BUFFER_PAGES, false);
    unsigned waits = 0;
    (void)state;
    while (put(&writer, 100000, 9) == PACKET_WAITS) {
        assert_int_equal(BUFFER_PAGES, service.waiting_count);
        while (service.waiting_count > 0)
            free_chunk(&service.waiting[--service.waiting_count]);
        waits++;
    }
    chunk_writer_flush(&writer);
    assert_int_equal(100000 / (BUFFER_PAGES * 4077), waits);
    assert_int_equal(1, service.count);
    check_packet(0, 100000, 9);
    shared_buffer_close(&buffer);
}

/* A packet that is given up is withdrawn, and the next one says that it is lost. */
static void test_packet_given_up(void **state)
{
    static const uint8_t loss[] = {0xd0, 0x02, 1};
    struct shared_buffer buffer;
    struct chunk_writer writer = begin(&buffer, 4096, BUFFER_PAGES, false);
    (void)state;
    assert_int_equal(PACKET_WRITTEN, put(&writer, 10, 1));
    assert_int_equal(PACKET_WAITS, put(&writer, 100000, 2));
    chunk_writer_give_up(&writer);
    assert_int_equal(PACKET_WAITS, put(&writer, 20, 3));
    chunk_writer_give_up(&writer);
    assert_int_equal(2, writer.lost_packets);
    while (service.waiting_count > 0)
        free_chunk(&service.waiting[--service.waiting_count]);
    assert_int_equal(PACKET_WRITTEN, put(&writer, 30, 4));
    assert_int_equal(PACKET_WRITTEN, put(&writer, 40, 5));
    assert_true(chunk_writer_flush(&writer));
    assert_int_equal(1, service.dropped);
    assert_int_equal(3, service.count);
    check_packet(0, 10, 1);
    assert_int_equal(33, service.ends[1] - service.ends[0]);
    assert_memory_equal(loss, service.bytes + service.ends[0], sizeof(loss));
    check_packet(2, 40, 5);
    shared_buffer_close(&buffer);
}

static void test_loss_at_the_end(void **state)
{
    struct shared_buffer buffer;
    struct chunk_writer writer = begin(&buffer, 4096, BUFFER_PAGES, true);
    (void)state;
    assert_int_equal(PACKET_WRITTEN, chunk_writer_put(&writer, NULL, 0, 0));
    assert_true(chunk_writer_flush(&writer));
    assert_int_equal(0, service.count);
    chunk_writer_give_up(&writer);
    assert_int_equal(PACKET_WRITTEN, chunk_writer_put(&writer, NULL, 0, 0));
    assert_true(chunk_writer_flush(&writer));
    assert_int_equal(1, service.count);
    assert_int_equal(3, service.used);
    shared_buffer_close(&buffer);
}

static void test_private_memory(void **state)
{
    struct shared_buffer buffer;
    struct shared_chunk chunk;
    (void)state;
    assert_int_equal(0, shared_buffer_allocate(&buffer, 4096, NULL));
    for (unsigned i = 0; i < 10000; i++) {
        assert_true(shared_buffer_acquire(&buffer, i % 5000, &chunk));
        assert_true(shared_buffer_complete(&buffer, &chunk));
        shared_buffer_free(&buffer, &chunk);
    }
    buffer.is_paused = true;
    assert_false(shared_buffer_acquire(&buffer, 1, &chunk));
    shared_buffer_close(&buffer);
}

/* --- a hostile service --- */

static int map_memfd(off_t bytes, int seals, uint32_t page_bytes, struct error *error)
{
    struct shared_buffer buffer;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(0, ftruncate(fd, bytes));
    fcntl(fd, F_ADD_SEALS, seals);
    int code = shared_buffer_map(&buffer, fd, page_bytes, error);
    assert_int_equal(-1, fcntl(fd, F_GETFD));
    shared_buffer_close(&buffer);
    return code;
}

static void test_refused_memory(void **state)
{
    struct error error;
    (void)state;
    assert_int_equal(0, map_memfd(65536, F_SEAL_SHRINK, 4096, &error));
    assert_int_equal(-EPROTO, map_memfd(65536, 0, 4096, &error));
    assert_non_null(strstr(error.message, "F_SEAL_SHRINK"));
    static const uint32_t bad_pages[] = {0, 1, 1024, 4095, 6000, 12288, 131072, UINT32_MAX};
    for (size_t i = 0; i < sizeof(bad_pages) / sizeof(bad_pages[0]); i++)
        assert_int_equal(-EPROTO, map_memfd(65536, F_SEAL_SHRINK, bad_pages[i], &error));
    assert_int_equal(-EPROTO, map_memfd(0, F_SEAL_SHRINK, 4096, &error));
    assert_int_equal(-EPROTO, map_memfd(4095, F_SEAL_SHRINK, 4096, &error));
    assert_int_equal(-EPROTO, map_memfd((off_t)1 << 40, F_SEAL_SHRINK, 4096, &error));
    struct shared_buffer buffer;
    assert_int_equal(-EPROTO, shared_buffer_map(&buffer, open("/dev/null", O_RDWR), 4096, &error));
    assert_null(buffer.bytes);
}

/* Whatever the words of pages are, chunks are inside their pages, and nothing loops. */
static void test_scribbled_words(void **state)
{
    struct shared_buffer buffer;
    struct shared_chunk chunk;
    begin(&buffer, 4096, BUFFER_PAGES, true);
    unsigned given = 0;
    (void)state;
    srand(4711);
    for (unsigned i = 0; i < 100000; i++) {
        for (uint32_t page = 0; page < BUFFER_PAGES; page++) {
            uint32_t word = ((uint32_t)rand() << 16) ^ (uint32_t)rand();
            memcpy(buffer.bytes + page * 4096, &word, sizeof(word));
        }
        if (!shared_buffer_acquire(&buffer, (size_t)(rand() % 6000), &chunk))
            continue;
        given++;
        assert_true(chunk.page < BUFFER_PAGES);
        assert_true(chunk.bytes >= buffer.bytes + (size_t)chunk.page * 4096 + 8);
        assert_true(chunk.bytes + chunk.size <= buffer.bytes + ((size_t)chunk.page + 1) * 4096);
        memset(chunk.bytes, 0xa5, chunk.size);
        assert_true(shared_buffer_complete(&buffer, &chunk));
    }
    assert_true(given > 50000);
    shared_buffer_close(&buffer);
}

static void test_stolen_chunk(void **state)
{
    struct shared_buffer buffer;
    struct chunk_writer writer = begin(&buffer, 4096, BUFFER_PAGES, true);
    (void)state;
    assert_int_equal(PACKET_WRITTEN, put(&writer, 100, 1));
    memset(buffer.bytes + (size_t)writer.chunk.page * 4096, 0, 4);
    assert_false(chunk_writer_flush(&writer));
    assert_int_equal(PACKET_WRITTEN, put(&writer, 100, 1));
    memset(buffer.bytes + (size_t)writer.chunk.page * 4096, 0xff, 4);
    assert_int_equal(PACKET_BROKEN, put(&writer, 100000, 1));
    shared_buffer_close(&buffer);
}

static struct instance *new_instance(void)
{
    Perfetto__Protos__DataSourceConfig config = PERFETTO__PROTOS__DATA_SOURCE_CONFIG__INIT;
    struct error error;
    config.target_buffer = 7;
    struct instance *instance = instance_new(1, &config, &error);
    assert_non_null(instance);
    return instance;
}

/* A session that writes what is no packet ends its own instance only. */
static void test_garbage_from_a_session(void **state)
{
    static const uint8_t written[] = {0x0a, 2, 1, 2, 0x0a, 1, 3, 0xff, 0xff};
    struct shared_buffer buffer;
    struct chunk_writer writer = begin(&buffer, 4096, BUFFER_PAGES, true);
    struct instance *instance = new_instance();
    struct error error;
    int ends[2];
    (void)state;
    setenv("HEAPPROFD_RUN_DIR", "/nonexistent", 1);
    assert_true(instance_start(instance, &buffer, writer.user, 5, &error) < 0);
    close(instance->pipe);
    assert_int_equal(0, pipe2(ends, O_CLOEXEC | O_NONBLOCK));
    instance->pipe = ends[0];
    assert_int_equal(sizeof(written), write(ends[1], written, sizeof(written)));
    assert_int_equal(1, instance_pump(instance, 1 << 20, 1, &error));
    assert_non_null(strstr(error.message, "cannot be read"));
    assert_true(instance_is_over(instance));
    assert_int_equal(2, service.count);
    assert_int_equal(0, instance_pump(instance, 1 << 20, 2, &error));
    instance_free(instance);
    close(ends[1]);
    shared_buffer_close(&buffer);
}

/* Read the requests that wait in a socket. Return how many there are. */
static unsigned count_requests(int fd)
{
    uint8_t bytes[256];
    unsigned count = 0;
    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        count++;
    return count;
}

/* A restart that the daemon's full socket does not take is sent when there is room, once. */
static void test_restart_waits_for_room(void **state)
{
    struct instance *instance = new_instance();
    struct error error;
    unsigned sent = 0;
    int ends[2];
    (void)state;
    assert_int_equal(0,
                     socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
    instance->daemon = ends[0];
    for (; !instance->must_restart; sent++)
        instance_restart_sequence(instance);
    instance_restart_sequence(instance);
    assert_int_equal(0, instance_serve_daemon(instance, &error));
    assert_true(instance->must_restart);
    assert_int_equal(sent - 1, count_requests(ends[1]));
    assert_int_equal(0, instance_serve_daemon(instance, &error));
    assert_false(instance->must_restart);
    assert_int_equal(0, instance_serve_daemon(instance, &error));
    assert_int_equal(1, count_requests(ends[1]));
    instance_free(instance);
    close(ends[1]);
}

/* A daemon that accepts nothing, because it is stopped, does not stop the producer. */
static void test_daemon_with_full_backlog(void **state)
{
    char directory[] = "/tmp/test-producer-XXXXXX";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct shared_buffer buffer;
    struct chunk_writer writer = begin(&buffer, 4096, BUFFER_PAGES, true);
    struct instance *instance = new_instance();
    struct error error;
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("HEAPPROFD_RUN_DIR", directory, 1);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/" RUN_DIRECTORY_SOCKET, directory);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(listener, (struct sockaddr *)&address, sizeof(address)));
    assert_int_equal(0, listen(listener, 0));
    int waiting = daemon_connect(0, &error);
    assert_true(waiting >= 0);
    assert_int_equal(-EAGAIN, instance_start(instance, &buffer, writer.user, 5, &error));
    assert_non_null(strstr(error.message, "accepts no connections: is it stopped?"));
    assert_true(instance->has_begun);
    assert_int_equal(0, instance_pump(instance, 1 << 20, 1, &error));
    assert_true(instance_is_over(instance));
    assert_true(service.count > 0);
    assert_non_null(memmem(service.bytes, service.used, "is it stopped?", 14));
    instance_free(instance);
    shared_buffer_close(&buffer);
    close(waiting);
    close(listener);
    unlink(address.sun_path);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts_divide_pages),
        cmocka_unit_test(test_every_chunk_is_given_once),
        cmocka_unit_test(test_packets_of_all_sizes),
        cmocka_unit_test(test_small_packets_take_small_chunks),
        cmocka_unit_test(test_fragments_of_a_chunk_are_counted),
        cmocka_unit_test(test_packet_larger_than_buffer),
        cmocka_unit_test(test_packet_given_up),
        cmocka_unit_test(test_loss_at_the_end),
        cmocka_unit_test(test_private_memory),
        cmocka_unit_test(test_refused_memory),
        cmocka_unit_test(test_scribbled_words),
        cmocka_unit_test(test_stolen_chunk),
        cmocka_unit_test(test_garbage_from_a_session),
        cmocka_unit_test(test_restart_waits_for_room),
        cmocka_unit_test(test_daemon_with_full_backlog),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
