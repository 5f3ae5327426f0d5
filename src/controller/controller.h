/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller as a whole: caches of API objects, the servers (webhook, dashboard), and the jobs
 * that reconcile objects. Jobs run by key from one queue, only while this controller leads. One
 * thread.
 */
#ifndef CONTROLLER_CONTROLLER_H
#define CONTROLLER_CONTROLLER_H

#include <sys/queue.h>

#include "access/access-page.h"
#include "base/loop.h"
#include "controller/admit.h"
#include "controller/certificate.h"
#include "controller/pool.h"
#include "controller/queue.h"
#include "controller/web.h"
#include "http/server.h"
#include "kube/cache.h"
#include "kube/discovery.h"
#include "kube/event.h"
#include "kube/lease.h"
#include "kube/write.h"

#define CONTROLLER_JOBS_MAX 32u /* most jobs in progress */

struct controller_options {
	const char *kubeconfig; /* NULL: the default of kube/kube-config.h */
	bool is_elected;        /* --leader-elect; false: this instance leads from the start */
	const char *scheduler_name, *ns, *lease_ns;
	const char *webhook_listen, *listen, *health_listen;
	const char *webhook_configuration, *webhook_service, *tls_secret;
	const char *pod_name;
	const char *placeholder_image; /* NULL: the image of the controller's own pod */
	bool has_claims;               /* --claims: shares by resources become claims */
	bool is_placeholder;           /* --placeholder: controller-placeholder.h */
};

enum controller_cache {
	/*
	 * pods of tenants, SharePods and divvy itself, and pods that request a share but lack the
	 * webhook's label; pods that wait for the template of a claim that divvy names
	 */
	CACHE_PODS,
	CACHE_NODES,
	CACHE_NAMESPACES,
	CACHE_SHARE_PODS,
	CACHE_KUBESHARE_PODS,
	CACHE_GPU_NODES,
	CACHE_LEASES, /* Leases of the nodes' divvyd */
	CACHE_POLICIES,
	CACHE_SECRET,
	CACHE_MUTATING,
	CACHE_VALIDATING,
	CACHE_AUTHORITY,       /* Secret of the authority that signs certificates between nodes */
	CACHE_AUTHORITY_MAP,   /* the ConfigMap with the authorities that nodes trust */
	CACHE_REQUESTS,        /* CertificateSigningRequests to the authority of CACHE_AUTHORITY */
	CACHE_API_SERVICE,     /* the APIService of external metrics */
	CACHE_FRONT,           /* trusted front proxies: access/front.h */
	CACHE_CLAIM_TEMPLATES, /* with --claims: those that divvy has made */
	CONTROLLER_N_CACHES
};

struct controller;

/* One cache, which is passed as `data` to the cache's callbacks. */
struct watched {
	struct controller *c;
	enum controller_cache which;
	struct kube_cache *cache;
};

struct controller {
	struct controller_options options;
	struct admit_rules rules;
	struct loop *loop;
	struct kube_config *config;
	struct kube_client *client;
	struct kube_discovery *discovery;
	struct kube_recorder *recorder;
	struct kube_lease *lease;
	struct watched watched[CONTROLLER_N_CACHES];
	struct queue *queue;
	struct vgpu_pool *pool;
	struct loop_timer timer;
	struct http_server *webhook;
	struct access *access; /* checks the rights of clients of external metrics */
	struct front *front;   /* NULL: no trusted front proxy is known */
	struct page *page;
	struct web *web; /* the dashboard's state */
	char host[256];  /* host name in the certificate */
	bool is_leading, is_ready, has_certificate;
	bool has_no_status; /* KubeShare's SharePods have no status subresource */
	bool has_pool;      /* pool nodes or placeholders existed at the last job_pool() */
	uint64_t started_ns;
	/*
	 * When to write match conditions again; until then they are not written, because the API
	 * server drops them.
	 */
	uint64_t conditions_from_ns;
	uint64_t n_reviews[2];      /* index 0: refused, 1: allowed */
	uint64_t n_certificates[2]; /* index 0: refused, 1: issued */
	LIST_HEAD(jobs, job) jobs;
	LIST_HEAD(askings, asking) askings; /* webhook.c */
};

int controller_new(const struct controller_options *options, struct controller **ret_controller,
	struct error *err);
/* Runs until controller_stop(); -errno. */
int controller_run(struct controller *c);
/* Releases the Lease. */
void controller_stop(struct controller *c);
void controller_free(struct controller *c);

/* ---- for the controller's files ---- */

/* Returns the object's JSON, borrowed until the loop runs again; NULL: no such object. */
const json_t *controller_find(
	const struct controller *c, enum controller_cache which, const char *ns, const char *name);
/* Like controller_find(), by UID. NULL also for the UIDs "" and NULL. */
const json_t *controller_find_uid(
	const struct controller *c, enum controller_cache which, const char *uid);
bool controller_is_synced(const struct controller *c, enum controller_cache which);
/* Iterates over a cache: NULL gives the first entry. */
const struct kube_entry *controller_next(
	const struct controller *c, enum controller_cache which, const struct kube_entry *entry);

/*
 * The dialects and policies of a namespace. controller_ns_facts() returns -ENOENT if the namespace
 * is not known. Call ns_facts_done() after a failure too.
 */
struct ns_facts {
	struct pod_translate_facts facts;
	struct buf dialects;
	const json_t *policy[POD_TRANSLATE_POLICIES_MAX];
};
int controller_ns_facts(
	const struct controller *c, const char *ns, const json_t *ns_object, struct ns_facts *ret);
void ns_facts_done(struct ns_facts *facts);

enum job_kind {
	JOB_SHARE_POD,
	JOB_KUBESHARE_POD,
	JOB_NODE,
	JOB_NAMESPACE,
	JOB_CERTIFICATE,
	JOB_POOL,
	JOB_AUTHORITY,
	JOB_SIGN,
	JOB_CLAIM_TEMPLATE,
	JOB_CLAIM_TEMPLATE_END,
	JOB_KINDS,
};

/* Queues the object for reconciliation. ns, name: "" or NULL for kinds without them. */
void controller_enqueue(struct controller *c, enum job_kind kind, const char *ns, const char *name);
void controller_enqueue_all(struct controller *c);

/* Whether this controller may write now. */
bool controller_may_write(const struct controller *c);

void controller_event(struct controller *c, const json_t *object, const char *api_version,
	const char *kind, bool is_warning, const char *reason, const char *message);

/* A running job. Each job ends with exactly one job_end(), in its function or later. */
struct job {
	LIST_ENTRY(job) link;
	struct controller *c;
	struct queue_key key; /* borrows ns and name of this struct */
	char ns[QUEUE_NAME], name[QUEUE_NAME];
	int kind;      /* for use by the job's function */
	int trouble;   /* for use by the job's function */
	json_t *stash; /* for use by the job's function; job_end() releases it */
};
typedef void job_fn(struct job *job);

/* Ends the job. r < 0: logs `sentence`, and the job runs again later. */
void job_end(struct job *job, int r, const char *sentence);

/*
 * kube_write.may_send of all writes of jobs; data: the job. The check runs right before the request
 * is sent: this process may have been stopped (SIGSTOP) after its decision, while another
 * controller took the lead.
 */
bool job_may_send(void *data);

/* A write of the job, which ends in `done`. */
struct kube_write job_write(struct job *job, const struct kube_target *target, kube_done_fn *done);
/*
 * Starts a write of the patch `change`, and releases `change`; NULL: the caller ran out of memory.
 * Returns 1 if the write has started, or -errno.
 */
int job_patch(struct job *job, const struct kube_write *write, enum kube_patch_kind kind,
	json_t *change, struct error *err);

job_fn job_share_pod, job_kubeshare_pod, job_node, job_namespace, job_certificate, job_pool,
	job_authority, job_sign, job_claim_template, job_claim_template_end;

/* Has the template removed once no pod has needed it for a while. */
void controller_end_template_later(struct controller *c, const char *ns, const char *name);

/* Whether the system's namespaces have the label by which the webhook ignores them. */
bool controller_has_labelled(const struct controller *c);

/* Whether pods with a share can run on the node. If so, its startup taint can be removed. */
bool controller_has_started(const json_t *node, const json_t *gpu_node);

/* Reads the certificate again and checks whether API servers trust it. */
void controller_look_at_certificate(struct controller *c);

/* ---- external.c ---- */

#define CONTROLLER_API_SERVICE "v1beta1.external.metrics.k8s.io"
http_handler_fn external_on_groups, external_on_group, external_on_resources, external_on_metric,
	external_on_nothing;
/* Reads the trusted front proxies again. */
void external_look_at_front(struct controller *c);

/* Routes of http/server.h; `data` is the controller. */
#define CONTROLLER_WEBHOOK_ROUTES 7u
#define CONTROLLER_HEALTH_ROUTES 2u
#define CONTROLLER_PAGE_ROUTES (2u + WEB_N_ROUTES)
extern const struct http_route controller_webhook_routes[CONTROLLER_WEBHOOK_ROUTES];
extern const struct http_route controller_health_routes[CONTROLLER_HEALTH_ROUTES];
extern const struct http_route controller_page_routes[CONTROLLER_PAGE_ROUTES];
/* Answers all requests that wait for the API server; call after the client is freed. */
void controller_end_askings(struct controller *c);

#endif
