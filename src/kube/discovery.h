/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out which versions of the resources in apis.def a server has. Asks once, and again on
 * request (after a 404 for a whole resource, or a change of a custom resource definition). One
 * thread.
 */
#ifndef KUBE_DISCOVERY_H
#define KUBE_DISCOVERY_H

#include "kube/kube-client.h"
#include "kube/kube-json.h"

/* KUBE_PODS, KUBE_NODES, ... */
enum kube_api {
#define KUBE_API(name, ...) KUBE_##name,
#define KUBE_ALSO(...)
#define KUBE_OWN(name, ...) KUBE_##name,
#define KUBE_OWN_ALSO(...)
#define KUBE_FIELD(...)
#include "kube/apis.def"
	KUBE_N_APIS
};

enum kube_field {
#define KUBE_API(...)
#define KUBE_ALSO(...)
#define KUBE_OWN(...)
#define KUBE_OWN_ALSO(...)
#define KUBE_FIELD(name, ...) KUBE_FIELD_##name,
#include "kube/apis.def"
	KUBE_N_FIELDS
};

/* A row of apis.def. */
struct kube_api_row {
	enum kube_api api;
	const char *group_version, *resource, *kind;
	bool is_namespaced, is_own;
	int first_minor, last_minor;
};
extern const struct kube_api_row kube_api_rows[];
extern const size_t kube_n_api_rows;

struct kube_field_row {
	enum kube_api api;
	const char *field;
	int first_minor, last_minor;
};
extern const struct kube_field_row kube_field_rows[KUBE_N_FIELDS];

#define KUBE_API_ROWS_MAX 64u
#define KUBE_MINOR_UNKNOWN 0

/* The resources that the server has. Pure: the caller passes the server's answers. */
struct kube_served {
	bool has[KUBE_API_ROWS_MAX]; /* whether the server has this row of kube_api_rows */
	bool has_eviction_v1;
	int minor; /* minor version of Kubernetes 1.x */
};

/* Adds the answer to /api/v1 or /apis/GROUP/VERSION, an APIResourceList. -EBADMSG if it is none. */
int kube_served_add(struct kube_served *served, const char *group_version, const json_t *list);
/* Reads the answer to /version: "1.28+" is 28. */
void kube_served_set_version(struct kube_served *served, const json_t *version);
/* The first row that the server has; NULL if it has none. */
const struct kube_api_row *kube_served_find(const struct kube_served *served, enum kube_api api);
bool kube_served_has_field(const struct kube_served *served, enum kube_field field);

struct kube_discovery;

/* r is 0, or the error of a failed round; the earlier result then stays. */
typedef void kube_discovery_fn(void *data, int r, const struct error *err);

/* Starts asking; `changed` is called when a round of questions has completed or failed. */
int kube_discovery_new(struct kube_client *client, kube_discovery_fn *changed, void *data,
	struct kube_discovery **ret_discovery, struct error *err);
/* Accepts NULL. Do not call from `changed`. */
void kube_discovery_free(struct kube_discovery *discovery);
DEFINE_CLEANUP(struct kube_discovery *, kube_discovery_free)

#define KUBE_DISCOVERY_PAUSE_NS (UINT64_C(1) * 1000000000) /* between two rounds */

/* Starts another round of questions soon. Further calls until then share that round. */
void kube_discovery_refresh(struct kube_discovery *discovery);

/* NULL until the first round has completed, and for resources that the server lacks. */
const struct kube_api_row *kube_discovery_find(
	const struct kube_discovery *discovery, enum kube_api api);
/* Whether the server has this very row of kube_api_rows, even if it is not the first one. */
bool kube_discovery_has_row(const struct kube_discovery *discovery, const struct kube_api_row *row);
bool kube_discovery_has_field(const struct kube_discovery *discovery, enum kube_field field);
/* Minor version of Kubernetes 1.x; KUBE_MINOR_UNKNOWN until the first round has completed. */
int kube_discovery_minor(const struct kube_discovery *discovery);
/* "policy/v1" or "policy/v1beta1", for kube_evict(). */
const char *kube_discovery_eviction(const struct kube_discovery *discovery);

#endif
