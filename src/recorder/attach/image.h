/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's blob, laid out and relocated for its address in a process, and followed by pages for
 * trampolines and the marker. An annex of more trampolines may be mapped elsewhere.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_IMAGE_H
#define HEAPPROFD_RECORDER_ATTACH_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"
#include "wire/attached_params.h"

struct image {
    uint8_t *bytes; /* contents of the mapping, and of the annex */
    size_t total;   /* all sizes in whole pages; the annex begins there */
    size_t annex_bytes;
    size_t code_bytes;
    size_t data_start, data_bytes;
    size_t trampolines_start; /* ends at marker_start */
    size_t marker_start;      /* a page of its own, the last */
    size_t params_offset;
};

/* Return the address space that an image takes, and that of its annex. */
size_t image_total(void);
size_t image_annex_bytes(void);

/* Make an image. Return 0, -ENOMEM, or -ENOEXEC for a damaged blob. */
int image_make(struct image *image, uint64_t base, struct error *error);
void image_free(struct image *image);

/* Return the parameters in the image. */
struct attached_params *image_params(const struct image *image);

#endif
