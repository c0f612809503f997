/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with two allocators besides malloc: a slab of nodes, whose allocations are identified
 * by address, and textures of a device, identified by handle. Callbacks tell the program when a
 * session starts to profile each heap.
 */
#include <heap_profile.h>

#include <stdio.h>
#include <stdlib.h>

/* --- nodes: a slab with a list of free nodes --- */

enum { NODES = 10000 };

struct node {
    struct node *next;
    int value;
};

static struct node nodes[NODES];
static struct node *free_nodes;
static uint32_t node_heap;

static struct node *node_allocate(void)
{
    struct node *node = free_nodes;
    if (node == NULL)
        return NULL;
    free_nodes = node->next;
    AHeapProfile_reportAllocation(node_heap, (uintptr_t)node, sizeof(*node));
    return node;
}

static void node_free(struct node *node)
{
    AHeapProfile_reportFree(node_heap, (uintptr_t)node);
    node->next = free_nodes;
    free_nodes = node;
}

/* --- textures: a handle represents memory of the device --- */

static uint32_t texture_heap;
static uint64_t next_texture;

static uint64_t texture_create(unsigned width, unsigned height, const char *kind)
{
    uint64_t texture = next_texture++; /* 0 is a valid handle, too */
    HeapProfile_reportAllocationOfType(texture_heap, texture, (uint64_t)width * height * 4, kind);
    return texture;
}

static void texture_destroy(uint64_t texture)
{
    AHeapProfile_reportFree(texture_heap, texture);
}

/* --- the program --- */

static void note_beginning(void *name, const AHeapProfileEnableCallbackInfo *info)
{
    fprintf(stderr, "%s: profiled from now on, every %llu bytes\n", (const char *)name,
            (unsigned long long)AHeapProfileEnableCallbackInfo_getSamplingInterval(info));
}

static void note_end(void *name, const AHeapProfileDisableCallbackInfo *info)
{
    (void)info;
    fprintf(stderr, "%s: profiled no longer\n", (const char *)name);
}

static uint32_t describe(const char *name)
{
    AHeapInfo *info = AHeapInfo_create(name);
    AHeapInfo_setEnabledCallback(info, note_beginning, (void *)name);
    AHeapInfo_setDisabledCallback(info, note_end, (void *)name);
    return AHeapProfile_registerHeap(info);
}

static void load_level(int number)
{
    HEAP_PROFILE_SCOPE(number % 2 ? "odd level" : "even level");
    texture_create(512, 512, "ground");
    texture_create(64, 64, "sprite");
    for (int i = 0; i < 100; i++)
        node_free(node_allocate());
    for (int i = 0; i < 50; i++)
        node_allocate();
}

int main(void)
{
    node_heap = describe("example.nodes");
    texture_heap = describe("example.textures");
    for (int i = 0; i < NODES; i++)
        nodes[i].next = i + 1 < NODES ? &nodes[i + 1] : NULL;
    free_nodes = nodes;
    for (int i = 0; i < 10; i++)
        load_level(i);
    texture_destroy(0);
    printf("%llu textures\n", (unsigned long long)next_texture);
    return 0;
}
