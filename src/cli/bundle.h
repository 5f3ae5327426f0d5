/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody who helps wants to see, in one tar: versions, findings, the daemon's state, logs,
 * GPUs, and the cluster's objects where there is a kubeconfig. Its README says which secrets are
 * left out.
 * Blocks: programs are run, servers asked. One thread.
 */
#ifndef CLI_BUNDLE_H
#define CLI_BUNDLE_H

#include <jansson.h>

#include "base/error.h"
#include "base/str.h"

#define BUNDLE_MAX (256u << 20)
#define BUNDLE_LOG_MAX (4u << 20) /* of each log the end */

struct bundle {
	struct buf tar;
	struct buf left; /* lines: what could not be had, and why */
	uint64_t now_s;
	size_t n_files;
};

/*
 * Writes the file, of mode 0600, or for "-" to stdout; socket and kubeconfig may be NULL. ret_n:
 * files in it.
 */
struct bundle_options {
	const char *path, *socket, *kubeconfig;
	const json_t *findings;
};
int bundle_write(const struct bundle_options *options, size_t *ret_n, struct error *err);

/* What is not understood as a secret stays; names that sound like one do not. In place. */
void bundle_redact(json_t *value);

/* A pod without what its containers are given to work with. In place. */
void bundle_redact_pod(json_t *pod);

/* ---- for its files ---- */

/* One more; a failure is noted in `left`. */
void bundle_add(struct bundle *b, const char *name, struct str text);
void bundle_add_json(struct bundle *b, const char *name, const json_t *value);
void bundle_miss(struct bundle *b, const char *what, const char *why);
/* bundle-cluster.c */
void bundle_cluster(struct bundle *b, const char *kubeconfig);

#endif
