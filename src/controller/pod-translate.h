/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pod translation: reads the request of a pod or template, and determines the fields that divvy
 * writes for the request. These are the label, the scheduler, the resources that quotas and the
 * kubelet count, and the record of the translation. Pure. Any thread.
 */
#ifndef CONTROLLER_POD_TRANSLATE_H
#define CONTROLLER_POD_TRANSLATE_H

#include "manifest/manifest-json.h"
#include "spec/dialect.h"

#define POD_TRANSLATE_RESOURCE_PREFIX "divvy.gpu/"
#define POD_TRANSLATE_SLOT MANIFEST_SLOT
/* The extended resource of the DeviceClass gpu.divvy.gpu, for pods without a claim. */
#define POD_TRANSLATE_WHOLE "divvy.gpu/gpu"
/* Resources that the webhook replaces by a claim: claim-template.h. */
#define POD_TRANSLATE_SHARE "divvy.gpu/share"
#define POD_TRANSLATE_MEMORY "divvy.gpu/memory"
#define POD_TRANSLATE_LIST_MAX 256u
#define POD_TRANSLATE_RESOURCES 3u
#define POD_TRANSLATE_POLICIES_MAX 256u

/* Dialects and policies of the pod's namespace. */
struct pod_translate_facts {
	/* list of dialects, from the namespace's annotation and policies; NULL: none */
	const char *dialects;
	const json_t *const *policy; /* specs of the GPUPolicies that select the namespace */
	size_t n_policies;
	bool has_claims; /* shares that pods request as resources become claims */
};

struct pod_translation {
	const json_t *metadata, *spec; /* borrowed */
	struct manifest_json json;
	struct dialect_config config; /* dialects of the namespace */
	struct dialect_result result;
	/* values of the annotations DIALECT_RECORD_KEY and DIALECT_LIST_KEY; "": not written */
	struct buf record, list;
	/* value of the annotation MANIFEST_DEFAULT_KEY; "": not written */
	struct str default_container;
	/* The namespace's list of dialects is invalid: no pod there can request a share. */
	bool is_config_bad;
	bool has_claims; /* as in the facts */
	struct error config_error;
};

/*
 * Reads a pod or template. -EINVAL: err has a message for the author of the pod. Call
 * pod_translation_done() after a failure too.
 */
int pod_translate_read(const json_t *metadata, const json_t *spec, struct str ns,
	const struct pod_translate_facts *facts, struct pod_translation *ret_translation,
	struct error *err);
void pod_translation_done(struct pod_translation *translation);
#define _cleanup_pod_translation_ __attribute__((cleanup(pod_translation_done)))

static inline bool pod_translate_is_tenant(const struct pod_translation *translation)
{
	return translation->result.n_tenants > 0;
}

/* Returns the container's translated request; NULL: the container has no share. */
const struct dialect_tenant *pod_translate_tenant(
	const struct pod_translation *translation, uint32_t container);

/* Whether the webhook replaces resources of the pod by claims. */
static inline bool pod_translate_has_claims(const struct pod_translation *translation)
{
	return translation->has_claims && !pod_translate_is_tenant(translation);
}

/* Writes the resources of a tenant's container and returns their number. */
struct pod_translate_resource {
	const char *name;
	uint64_t value;
};
uint32_t pod_translate_resources(const struct dialect_tenant *tenant,
	struct pod_translate_resource ret[static POD_TRANSLATE_RESOURCES]);

/*
 * Checks that fields which only divvy may write are absent, or have the value that divvy would
 * write: the webhook also sees pods that it has translated already. With is_patched false, values
 * of LimitRanger are accepted too, because the patch will replace them. -EINVAL.
 */
int pod_translate_check_presets(
	const struct pod_translation *translation, bool is_patched, struct error *err);

/* Checks that a pod after the webhook has all that divvy writes. -EINVAL. */
int pod_translate_check_complete(const struct pod_translation *translation, struct error *err);

/*
 * For a changed pod: checks that each container with a share had a share when the pod was created.
 * -EINVAL.
 */
int pod_translate_check_slots(const struct pod_translation *translation, struct error *err);

/* Checks the resources that the webhook replaces by claims. -EINVAL. */
int pod_translate_check_claims(const struct pod_translation *translation, struct error *err);

/*
 * Checks that the modes of all containers are possible with one node for the pod and one node for
 * the devices; otherwise the pod would wait forever. -EINVAL.
 */
int pod_translate_check_modes(const struct pod_translation *translation, struct error *err);

/*
 * Checks the request against those limits of the namespace's policies that do not depend on other
 * pods. -EPERM.
 */
int pod_translate_check_policies(const struct pod_translation *translation,
	const struct pod_translate_facts *facts, struct error *err);
/* The same for one spec, such as that of a claim. */
int pod_translate_check_spec(
	const struct spec *spec, const struct pod_translate_facts *facts, struct error *err);

/*
 * For a pod with a node: checks that both translations agree in the fields that can no longer
 * change. -EINVAL.
 */
int pod_translate_check_frozen(
	const struct pod_translation *old, const struct pod_translation *new, struct error *err);

/*
 * Whether the webhook replaces the pod's schedulerName by divvy-scheduler, as for "" and
 * "default-scheduler".
 */
bool pod_translate_replaces_scheduler(const struct pod_translation *translation);

/*
 * Returns a JSON Patch that writes the fields of divvy that are missing or wrong; an empty array if
 * none is. NULL: no memory.
 */
json_t *pod_patch(const struct pod_translation *translation, const char *scheduler_name);

#endif
