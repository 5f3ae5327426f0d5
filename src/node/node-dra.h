/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DRA driver divvy.gpu of a node: prepares ResourceClaims as tenants, and publishes the node's
 * devices as ResourceSlices. Shared by the files node-dra*.c and node.c. One thread, the loop's.
 */
#ifndef NODE_NODE_DRA_H
#define NODE_NODE_DRA_H

#include "base/hash.h"
#include "dra/dra-claim.h"
#include "node/node-internal.h"

enum dra_prepared_state {
	PREPARED_WRITING, /* its files are being written */
	PREPARED_READY,
	PREPARED_ENDING, /* its tenants have ended; the checkpoint still has it */
};

/* A claim that is prepared, or that a request is preparing or unpreparing. */
struct dra_prepared {
	UT_hash_handle hh; /* in dra->claims, by UID */
	struct dra_claim *claim;
	enum dra_prepared_state state;
	bool is_busy;        /* a job of the disk worker refers to it */
	uint32_t n_missed;   /* node-dra-sweep.c: answers in a row that the claim is gone */
	uint64_t swept_ns;   /* time of the last such question */
	char rejection[256]; /* node-dra-live.c: last reported reason for an unchanged tenant */
};

struct dra_op;  /* node-dra.c: a request of the kubelet */
struct journal; /* node-dra-journal.c */

struct dra {
	struct node *node;
	struct dra_plugin *plugin;
	uint64_t since_s;            /* start of this driver, in seconds since 1970 */
	char reason[128];            /* why the kubelet has not registered the driver */
	struct dra_prepared *claims; /* hash table, by UID */
	LIST_HEAD(, dra_op) ops;
	struct journal *journal;
	struct dra_slices *slices; /* node-dra-slice.c */
	struct kube_cache *live;   /* node-dra-live.c */
	/* node-dra-files.c: number of slots that have files, and the job for the next slot's */
	uint32_t n_warm;
	struct slot_files *warming;
	/* node-dra-sweep.c: the question about a claim that is under way */
	struct kube_call *sweep_call;
	char swept_uid[DRA_UID];
	char ending_uid[DRA_UID]; /* the claim whose end is being written; "": none */
	uint64_t next_sweep_ns;
};

/* ---- node-dra.c ---- */

/* The prepared claim with that UID; NULL: none. */
struct dra_prepared *dra_find(const struct dra *dra, const char *uid);
/* Adds a claim, which the list owns then. NULL: out of memory. */
struct dra_prepared *dra_add(
	struct dra *dra, struct dra_claim *claim, enum dra_prepared_state state);
/* Removes and frees a claim whose tenants have ended. */
void dra_forget(struct dra *dra, struct dra_prepared *prepared);

/* ---- node-dra-files.c ---- */

/* The files of a tenant of a claim: those of its slot, and the CDI file. */
struct dra_files;

/* The texts are copied; nothing is written yet. */
int dra_files_new(const struct node *node, const struct slot *slot, const struct tenant *tenant,
	struct dra_files **ret_files, struct error *err);
void dra_files_free(struct dra_files *files); /* accepts NULL */
/* Writes the files. Blocks on the disk; any thread. Returns 0 or -errno. */
int dra_files_write(const struct dra_files *files, struct error *err);

/*
 * At the start: removes what a killed daemon has left half written, which blocks. Then has the disk
 * worker make the files of the first DRA_SLOTS_WARM slots, which a tenant then finds: a sync of
 * each would make the first claims of a node slow. dra_files_cool() ends this.
 */
#define DRA_SLOTS_WARM 128u
void dra_files_warm(struct dra *dra);
void dra_files_cool(struct dra *dra);

/* ---- node-dra-journal.c ---- */

/*
 * Reads the checkpoint of an earlier divvyd into dra->claims, as PREPARED_READY, and opens it.
 * Blocks. An unreadable checkpoint is logged and no error.
 */
int dra_journal_new(struct dra *dra, struct error *err);
/* A job that is under way goes on, and calls nobody any more. */
void dra_journal_free(struct dra *dra);

/*
 * Has the disk worker write the files, which it takes over, and then the line of the checkpoint.
 * `done` is called later, once, when both are on the disk. -ENOMEM.
 */
typedef void dra_written_fn(void *data, int result, const struct error *err);
int dra_write_prepared(struct dra *dra, const struct dra_claim *claim, struct dra_files **files,
	size_t n, dra_written_fn *done, void *data, struct error *err);
int dra_write_unprepared(
	struct dra *dra, const char *uid, dra_written_fn *done, void *data, struct error *err);

/* ---- node-dra-tenant.c ---- */

/*
 * Makes the claim's tenants, each with a slot of its own. On failure no tenant is left. -ENOSPC,
 * -EIO, -EPERM, ... with a sentence.
 */
int dra_tenants_make(struct dra *dra, struct dra_claim *claim, struct error *err);
/* Opens the sockets of the claim's tenants, whose folders exist. */
int dra_tenants_open(struct dra *dra, const struct dra_claim *claim, struct error *err);
/* Ends the claim's tenants, and removes their sockets and CDI files. */
void dra_tenants_end(struct dra *dra, struct dra_claim *claim);
/* Logs and reports the claim's tenants as granted. */
void dra_tenants_report(struct dra *dra, const struct dra_claim *claim);
/*
 * At the start: makes the tenants, sockets and CDI files of all claims that lack them, and ends
 * tenants of claims that are not prepared. Blocks.
 */
void dra_tenants_resume(struct dra *dra);

/* ---- node-dra-live.c ---- */

/* Follows the claims whose annotations change their tenants. */
int dra_live_new(struct dra *dra, struct error *err);
void dra_live_free(struct dra *dra);
/* Call when a claim is ready: its annotations may have changed since it was read. */
void dra_live_look(struct dra *dra, struct dra_prepared *prepared);

/* ---- node-dra-sweep.c ---- */

/* Called once a second: ends claims that are gone and that the kubelet does not unprepare. */
void dra_sweep(struct dra *dra, uint64_t now);

/* ---- node-dra-slice.c ---- */

int dra_slices_new(struct dra *dra, struct error *err);
void dra_slices_free(struct dra_slices *slices); /* accepts NULL */
/* Something that the slices or the report of health have may have changed. */
void dra_slices_touch(struct dra *dra);

/* The devices as dra_claim_read() needs them; the caller frees `known`. NULL: out of memory. */
struct dra_known *dra_known_devices(const struct node *node);

#endif
