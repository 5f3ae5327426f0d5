/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pod, or a template, asks for, and what has to be in it because of that: the label, the
 * scheduler, the resources that quotas and the kubelet count, the record of what was translated.
 * Pure. Any thread.
 */
#ifndef CONTROLLER_WISH_H
#define CONTROLLER_WISH_H

#include "manifest/manifest-json.h"
#include "spec/dialect.h"

#define WISH_RESOURCE_PREFIX "divvy.gpu/"
#define WISH_SLOT MANIFEST_SLOT
#define WISH_LIST_MAX 256u
#define WISH_RESOURCES 3u
#define WISH_POLICIES_MAX 256u

/* What is known of the namespace. */
struct wish_facts {
	const char *dialects;        /* its annotation; NULL: none */
	const json_t *const *policy; /* specs of the GPUPolicies that select it */
	size_t n_policies;
};

struct wish {
	const json_t *metadata, *spec; /* borrowed */
	struct manifest_json json;
	struct dialect_config config; /* the namespace's */
	struct dialect_result result;
	struct buf record, list;      /* values of the two annotations; "": none is written */
	struct str default_container; /* value of MANIFEST_DEFAULT_KEY; "": none is written */
	/* That of the namespace is wrong: nothing can be asked for there. */
	bool is_config_bad;
	struct error config_error;
};

/* -EINVAL with the sentence for who wrote it. wish_done also after a failure. */
int wish_read(const json_t *metadata, const json_t *spec, struct str ns,
	const struct wish_facts *facts, struct wish *ret_wish, struct error *err);
void wish_done(struct wish *wish);
#define _cleanup_wish_ __attribute__((cleanup(wish_done)))

static inline bool wish_is_tenant(const struct wish *wish)
{
	return wish->result.n_tenants > 0;
}

/* NULL: that container is none. */
const struct dialect_tenant *wish_tenant(const struct wish *wish, uint32_t container);
bool wish_is_foreign(const struct wish *wish, uint32_t container, struct str resource);

/* The resources of a tenant's container; their number. */
struct wish_resource {
	const char *name;
	uint64_t value;
};
uint32_t wish_resources(
	const struct dialect_tenant *tenant, struct wish_resource ret[static WISH_RESOURCES]);

/*
 * Nothing is there that only divvy may write, unless it is what divvy would write: so its own
 * result is accepted. -EINVAL. Before the patch (is_patched is false) what LimitRanger wrote is
 * accepted too, since the patch replaces it.
 */
int wish_check_presets(const struct wish *wish, bool is_patched, struct error *err);

/* All is there that has to be: of a pod that has been through the webhook. -EINVAL. */
int wish_check_complete(const struct wish *wish, struct error *err);

/* Of a pod that is changed: who has a share asked for it when the pod was made. -EINVAL. */
int wish_check_slots(const struct wish *wish, struct error *err);

/* Its containers can be on one pair of nodes: such a pod would wait for ever. -EINVAL. */
int wish_check_modes(const struct wish *wish, struct error *err);

/* What the policies of the namespace say at once. -EPERM. */
int wish_check_policies(const struct wish *wish, const struct wish_facts *facts, struct error *err);

/* Of a pod that has its place: what cannot be changed any more is the same. -EINVAL. */
int wish_check_frozen(const struct wish *old, const struct wish *new, struct error *err);

/* Does it name a scheduler that we stand in for? "" and "default-scheduler" are. */
bool wish_replaces_scheduler(const struct wish *wish);

/* A JSON Patch that puts in what is missing; an empty array where nothing is. NULL: no memory. */
json_t *wish_patch(const struct wish *wish, const char *scheduler_name);

#endif
