/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller as a whole: what it knows (caches), who asks it (the webhook, the page), what it
 * puts right (jobs by key in one queue, only while it leads). One thread.
 */
#ifndef CONTROLLER_CONTROLLER_H
#define CONTROLLER_CONTROLLER_H

#include <sys/queue.h>

#include "access/page.h"
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

#define CONTROLLER_JOBS_MAX 32u /* under way at once */

struct controller_options {
	const char *kubeconfig; /* NULL: as kube/config.h finds it */
	bool is_elected;        /* --leader-elect; else it leads from the start */
	const char *scheduler_name, *ns, *lease_ns;
	const char *webhook_listen, *listen, *health_listen;
	const char *webhook_configuration, *webhook_service, *tls_secret;
	const char *pod_name;
	const char *placeholder_image; /* NULL: the one that our own pod runs from */
	bool is_placeholder;           /* --placeholder: placeholder.h */
};

enum controller_cache {
	CACHE_PODS, /* tenants, SharePods', divvy's own, and those that came past the webhook */
	CACHE_NODES,
	CACHE_NAMESPACES,
	CACHE_SHARE_PODS,
	CACHE_KUBESHARE_PODS,
	CACHE_GPU_NODES,
	CACHE_LEASES, /* of the nodes' daemons */
	CACHE_POLICIES,
	CACHE_SECRET,
	CACHE_MUTATING,
	CACHE_VALIDATING,
	CACHE_AUTHORITY,     /* the Secret of the authority between nodes */
	CACHE_AUTHORITY_MAP, /* the ConfigMap with what they believe */
	CACHE_REQUESTS,      /* for certificates by it */
	CACHE_API_SERVICE,   /* external metrics, where somebody has asked for them */
	CACHE_FRONT,         /* whom to believe who passes requests on: access/front.h */
	CONTROLLER_N_CACHES
};

struct controller;

/* One of the caches, as its callbacks get it. */
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
	struct access *access; /* the guard of external metrics */
	struct front *front;   /* NULL: none is known */
	struct page *page;
	struct web *web; /* what the page shows */
	char host[256];  /* what the certificate is for */
	bool is_leading, is_ready, has_certificate;
	bool has_no_status; /* KubeShare's SharePods have no subresource */
	bool has_pool;      /* nodes or placeholders of one, as job_pool has seen it last */
	uint64_t started_ns;
	uint64_t conditions_from_ns; /* before: API servers drop match conditions */
	uint64_t n_reviews[2];       /* refused, allowed */
	uint64_t n_certificates[2];  /* refused, issued */
	LIST_HEAD(jobs, job) jobs;
	LIST_HEAD(askings, asking) askings; /* webhook.c */
};

int controller_new(const struct controller_options *options, struct controller **ret_controller,
	struct error *err);
/* Until controller_stop(); -errno. */
int controller_run(struct controller *c);
/* Gives up what it leads. */
void controller_stop(struct controller *c);
void controller_free(struct controller *c);

/* ---- for its parts ---- */

/* The object's JSON, borrowed until the loop goes on; NULL: it is not there. */
const json_t *controller_find(
	const struct controller *c, enum controller_cache which, const char *ns, const char *name);
/* The same by its UID; "" and NULL: none. */
const json_t *controller_find_uid(
	const struct controller *c, enum controller_cache which, const char *uid);
bool controller_is_synced(const struct controller *c, enum controller_cache which);
/* The others of a cache in turn: NULL gives the first. */
const struct kube_entry *controller_next(
	const struct controller *c, enum controller_cache which, const struct kube_entry *entry);

/* The dialects and policies of a namespace; 0, or -ENOENT: it is not known. */
struct ns_facts {
	struct wish_facts facts;
	struct buf dialects;
	const json_t *policy[WISH_POLICIES_MAX];
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
	JOB_KINDS,
};

/* The object is to be looked at again. ns, name: "" or NULL where the kind has none. */
void controller_enqueue(struct controller *c, enum job_kind kind, const char *ns, const char *name);
void controller_enqueue_all(struct controller *c);

/* May something be written now? */
bool controller_may_write(const struct controller *c);

void controller_event(struct controller *c, const json_t *object, const char *api_version,
	const char *kind, bool is_warning, const char *reason, const char *message);

/* A key under way. A job ends with exactly one job_end(), from within its function or later. */
struct job {
	LIST_ENTRY(job) link;
	struct controller *c;
	struct queue_key key; /* of ns and name */
	char ns[QUEUE_NAME], name[QUEUE_NAME];
	int kind;      /* the function's own */
	int trouble;   /* the function's own */
	json_t *stash; /* the function's own; freed at the end */
};
typedef void job_fn(struct job *job);

/* r < 0: it comes again later. */
void job_end(struct job *job, int r, const char *sentence);

/*
 * .may_send of what a job writes: a process that was stopped between deciding and sending goes on
 * where it was, when another one leads and has decided otherwise. data: the job.
 */
bool job_may_send(void *data);

job_fn job_share_pod, job_kubeshare_pod, job_node, job_namespace, job_certificate, job_pool,
	job_authority, job_sign;

/* Are the system's own namespaces labelled, so that nothing there waits for the webhook? */
bool controller_has_labelled(const struct controller *c);

/* Pods with a share can be placed on that node from now on: its startup taint can go. */
bool controller_has_started(const json_t *node, const json_t *gpu_node);

/* The certificate and whether API servers trust it, anew. */
void controller_look_at_certificate(struct controller *c);

/* ---- external.c ---- */

#define CONTROLLER_API_SERVICE "v1beta1.external.metrics.k8s.io"
http_handler_fn external_on_resources, external_on_metric, external_on_nothing;
/* Whom to believe, anew. */
void external_look_at_front(struct controller *c);

/* Of http/server.h; data is the controller. */
#define CONTROLLER_WEBHOOK_ROUTES 5u
#define CONTROLLER_HEALTH_ROUTES 2u
#define CONTROLLER_PAGE_ROUTES (2u + WEB_N_ROUTES)
extern const struct http_route controller_webhook_routes[CONTROLLER_WEBHOOK_ROUTES];
extern const struct http_route controller_health_routes[CONTROLLER_HEALTH_ROUTES];
extern const struct http_route controller_page_routes[CONTROLLER_PAGE_ROUTES];
/* Whoever still waits for an answer gets one, once the client is gone. */
void controller_end_askings(struct controller *c);

#endif
