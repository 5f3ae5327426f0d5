/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoint of prepared claims: a text that survives a restart of the machine. The next divvyd
 * makes each claim's tenants and CDI files of it. The text has one JSON object a line: the version
 * first, then a line for each claim that was prepared or unprepared. So a writer appends what has
 * changed, whatever the number of claims. A kill or a power failure may leave a last
 * line without its end; the kubelet has had no answer about such a line. Pure; any thread.
 */
#ifndef DRA_DRA_CHECKPOINT_H
#define DRA_DRA_CHECKPOINT_H

#include "base/str.h"
#include "dra/dra-claim.h"

#define CHECKPOINT_MAX (64u << 20) /* bytes of the text */

/* Each appends one line. Returns 0, -EMSGSIZE or -ENOMEM. */
int checkpoint_add_version(struct buf *out);
/* The claim is prepared as it is now, also if it was prepared before. */
int checkpoint_add_prepared(struct buf *out, const struct dra_claim *claim);
int checkpoint_add_unprepared(struct buf *out, const char *uid);

/* Called for each line, in the order of the lines. */
struct checkpoint_handler {
	void (*prepared)(void *data, struct dra_claim *claim); /* takes ownership */
	void (*unprepared)(void *data, const char *uid);
	void *data;
};

/*
 * Reads the complete lines. *ret_size is always set: the size of the complete lines. Returns 0;
 * -EBADMSG, if the text is not a checkpoint of this version; -EINVAL with the number of the first
 * faulty line, which is left out while the other lines are read; -ENOMEM.
 */
int checkpoint_read(struct str text, const struct checkpoint_handler *handler, size_t *ret_size,
	struct error *err);

#endif
