/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects in one tar all facts that help with a problem: versions, findings, the daemon's state,
 * logs and GPUs. With a kubeconfig, it adds the cluster's objects. The README in the tar says which
 * secrets are left out. The functions block: they run programs and ask servers. One thread.
 */
#ifndef CLI_BUNDLE_H
#define CLI_BUNDLE_H

#include <jansson.h>

#include "base/error.h"
#include "base/str.h"

#define BUNDLE_MAX (256u << 20)   /* bytes of the archive without its README */
#define BUNDLE_LOG_MAX (4u << 20) /* bytes of each log, from its end */

struct bundle {
	struct buf tar;
	struct buf left; /* lines: things that could not be collected, and why */
	uint64_t now_s;
	size_t n_files;
};

/*
 * Writes the file with mode 0600, or to stdout for "-". socket and kubeconfig may be NULL. *ret_n:
 * number of files in the archive.
 */
struct bundle_options {
	const char *path, *socket, *kubeconfig;
	const json_t *findings;
};
int bundle_write(const struct bundle_options *options, size_t *ret_n, struct error *err);

/*
 * Replaces, in place, the value of each member whose name suggests a secret.
 */
void bundle_redact(json_t *value);

/* Redacts a pod's env, commands, probes and foreign annotations, in place. */
void bundle_redact_pod(json_t *pod);

/* ---- for bundle.c and bundle-cluster.c ---- */

/* Adds a file. Notes a failure in `left`. */
void bundle_add(struct bundle *b, const char *name, struct str text);
void bundle_add_json(struct bundle *b, const char *name, const json_t *value);
void bundle_miss(struct bundle *b, const char *what, const char *why);
/* bundle-cluster.c */
void bundle_cluster(struct bundle *b, const char *kubeconfig);

#endif
