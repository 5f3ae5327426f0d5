/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up the memory that the functions of a PTX text declare: static shared memory, and local
 * memory of a thread. A kernel uses what it declares itself, the module's shared variables that it
 * names, and all of the functions that it names, directly or through others.
 *
 * Pure code; one thread per object. Functions return 0 or -ENOMEM. Texts are borrowed: names must
 * stay valid until footprints_free().
 */
#ifndef SIMGPU_CU_FOOTPRINT_H
#define SIMGPU_CU_FOOTPRINT_H

#include <stddef.h>
#include <stdint.h>

struct footprints;

struct footprint {
	uint64_t shared_bytes;
	uint64_t local_bytes; /* of one thread: the sum of all frames that the kernel reaches */
};

struct footprints *footprints_new(void);
void footprints_free(struct footprints *f);

/* A shared variable of the module. */
int footprints_add_variable(struct footprints *f, const char *name, size_t n, uint64_t bytes);
/* Begins the body of a function or kernel, to which the next three kinds of calls belong. */
int footprints_begin_function(struct footprints *f, const char *name, size_t n);
void footprints_end_function(struct footprints *f);
/* Memory that the body declares, aligned to `align` bytes. */
void footprints_declare_shared(struct footprints *f, uint64_t bytes, unsigned align);
void footprints_declare_local(struct footprints *f, uint64_t bytes, unsigned align);
/* A word of the body. Words that name neither a variable nor a function change nothing. */
int footprints_mention(struct footprints *f, const char *name, size_t n);

/* The sum of a function, by its name; zeros if it has no body. */
struct footprint footprints_sum(struct footprints *f, const char *name, size_t n);

#endif
