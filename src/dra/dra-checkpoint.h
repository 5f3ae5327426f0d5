/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoint of prepared claims: a JSON text that survives a restart of the machine. The next
 * divvyd makes each claim's tenants and CDI files of it. Pure; any thread.
 */
#ifndef DRA_DRA_CHECKPOINT_H
#define DRA_DRA_CHECKPOINT_H

#include "base/str.h"
#include "dra/dra-claim.h"

#define CHECKPOINT_MAX (64u << 20) /* bytes of the text */

/* One claim as JSON; the caller owns it. NULL: out of memory. */
json_t *checkpoint_claim(const struct dra_claim *claim);

/* Appends the text of a checkpoint with these claims (a list; borrowed). -EMSGSIZE or -ENOMEM. */
int checkpoint_format(const json_t *claims, struct buf *out);

/*
 * Reads a checkpoint, and calls `each` for every claim; it takes ownership. Returns 0; -EBADMSG, if
 * the text is not a checkpoint of this version; -EINVAL with the number of the faulty claim, which
 * is left out while the other claims are read; -ENOMEM.
 */
typedef void checkpoint_fn(void *data, struct dra_claim *claim);
int checkpoint_read(struct str text, checkpoint_fn *each, void *data, struct error *err);

#endif
