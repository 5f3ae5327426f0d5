/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claims.*: how much of a cluster's GPUs claims of divvy.gpu get, on the OpenB trace of bench-openb
 * turned into ResourceClaims. Each node publishes its GPUs as divvyd does; each task is a pod with
 * a claim for a share, or for whole GPUs, of the models that the task accepts. Pods arrive in the
 * orders that come with the data, nothing ends, and a pod that does not fit is dropped. The result
 * is the allocated part of all GPUs when the arrived pods have requested 100 % of them.
 *
 * `divvy` is the scheduler itself (src/scheduler), without an API server. `kube` is kube-scheduler
 * with its default profile: it stops after the number of nodes that fit of its percentage, and
 * prefers the node with the least and most balanced use of CPU and memory. `first` takes the first
 * node that fits. Both take the first devices that src/claims finds, as tests/k8s/test-allocator.py
 * shows that Kubernetes' allocator does. Needs the folder that DIVVY_OPENB names.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/traces.h"
#include "claims/claims.h"
#include "replay/openb.h"
#include "scheduler/sched.h"

#define SEEDS 5u /* orders of arrival that come with the data: 42 to 46 */
#define QUICK_PART 8u
#define CLASS_SHARES "shares"
#define CLASS_WHOLE "wholes"
#define DRIVER "divvy.gpu"
#define DEVICE_MIB 16384
#define MINOR 37u
#define FIRST_SECOND UINT64_C(1000000000)

struct trace {
	struct buf nodes_text, pods_text;
	struct openb_node *nodes;
	struct openb_pod *pods;
	uint32_t n_nodes, n_pods;
	uint32_t *order; /* rows of pods */
	uint32_t n_order;
	uint64_t milli; /* of all GPUs */
};

enum policy { DIVVY, KUBE, FIRST, POLICIES };
static const char *const policies[POLICIES] = {"divvy", "kube", "first"};

/* ---- reading ---- */

static void trace_read_text(struct buf *text, const char *fmt, const char *name, unsigned int seed)
{
	char file[128], path[1024];
	struct error err = {0};

	snprintf(file, sizeof(file), fmt, name, seed);
	snprintf(path, sizeof(path), "%s/%s", traces_folder(), file);
	*text = BUF_INIT(64u << 20);
	if (file_read(path, text, &err) < 0)
		bench_die("%s", err.msg);
}

static uint32_t *trace_read_order(
	const char *fmt, const char *name, unsigned int seed, uint32_t n_rows, uint32_t *ret_n)
{
	_cleanup_buf_ struct buf text;
	struct error err = {0};
	uint32_t *order = NULL;
	int n;

	trace_read_text(&text, fmt, name, seed);
	n = openb_order(buf_str(&text), n_rows, &order, &err);
	if (n < 0)
		bench_die("%s", err.msg);
	*ret_n = (uint32_t)n;
	return order;
}

/* Sorts the nodes by their ranks, and keeps every QUICK_PART-th of them in a short run. */
static void rank_nodes(struct trace *t, const uint32_t *ranks, uint32_t n_ranks)
{
	struct openb_node *sorted = calloc(t->n_nodes + 1ul, sizeof(*sorted));
	uint32_t n = 0;

	if (!sorted || n_ranks != t->n_nodes)
		bench_die("%u ranks for %u nodes", n_ranks, t->n_nodes);
	for (uint32_t i = 0; i < t->n_nodes; i++)
		sorted[ranks[i]] = t->nodes[i];
	for (uint32_t i = 0; i < t->n_nodes; i++)
		if (!bench_quick() || i % QUICK_PART == 0)
			sorted[n++] = sorted[i];
	free(t->nodes);
	t->nodes = sorted;
	t->n_nodes = n;
	t->milli = 0;
	for (uint32_t i = 0; i < n; i++)
		t->milli += sorted[i].n_devices * UINT64_C(1000);
}

static void trace_read(struct trace *t, const char *name, unsigned int seed)
{
	struct error err = {0};
	uint32_t *ranks, n_ranks;
	int n;

	*t = (struct trace){.milli = 0};
	trace_read_text(&t->nodes_text, "openb_node_list_gpu_node.csv", name, seed);
	trace_read_text(&t->pods_text, "openb_pod_list_%s.csv", name, seed);
	n = openb_nodes(buf_str(&t->nodes_text), &t->nodes, &err);
	t->n_nodes = (uint32_t)n;
	n = n < 0 ? n : openb_pods(buf_str(&t->pods_text), &t->pods, &err);
	if (n < 0)
		bench_die("%s", err.msg);
	t->n_pods = (uint32_t)n;
	t->order = trace_read_order("arrivals/%s.%u.txt", name, seed, t->n_pods, &t->n_order);
	ranks = trace_read_order("arrivals/%s.%u.perm", name, seed, t->n_nodes, &n_ranks);
	rank_nodes(t, ranks, n_ranks);
	free(ranks);
}

static void trace_done(struct trace *t)
{
	buf_done(&t->nodes_text);
	buf_done(&t->pods_text);
	free(t->nodes);
	free(t->pods);
	free(t->order);
}

static uint64_t pod_milli(const struct openb_pod *pod)
{
	return (uint64_t)pod->share * pod->count;
}

/* ---- objects ---- */

static json_t *device_json(const struct openb_node *node, uint32_t i, bool is_share)
{
	_cleanup_free_ char *model = str_dup(node->model);
	char name[48], set[16], memory[24];
	json_t *json;

	snprintf(name, sizeof(name), "%s-%u", is_share ? "share" : "gpu", i);
	snprintf(set, sizeof(set), "%u", i);
	snprintf(memory, sizeof(memory), "%dMi", DEVICE_MIB);
	json = json_pack("{s:s, s:{s:{s:s}}, s:{s:{s:s}}, s:[{s:s, s:{s:{s:s}}}]}", "name", name,
		"attributes", "model", "string", model, "capacity", "memory", "value", memory,
		"consumesCounters", "counterSet", set, "counters", "device", "value", "1");
	if (!is_share)
		return json;
	json_object_set_new(json, "allowMultipleAllocations", json_true());
	json_object_set_new(json, "capacity",
		json_pack("{s:{s:s, s:{s:s, s:{s:s, s:s}}}, s:{s:s, s:{s:s, s:{s:s, s:s}}}}",
			"share", "value", "1k", "requestPolicy", "default", "1k", "validRange",
			"min", "1", "step", "1", "memory", "value", memory, "requestPolicy",
			"default", memory, "validRange", "min", "2Mi", "step", "2Mi"));
	return json;
}

static json_t *slice_json(const struct openb_node *node, const char *part, json_t *list)
{
	_cleanup_free_ char *name = str_dup(node->name);
	char own[96];

	snprintf(own, sizeof(own), "%s-%s", name, part);
	return json_pack("{s:{s:s}, s:{s:s, s:s, s:{s:s, s:i, s:i}, s:o}}", "metadata", "name", own,
		"spec", "driver", DRIVER, "nodeName", name, "pool", "name", name, "generation", 1,
		"resourceSliceCount", 2, part, list);
}

/* Calls `set` with the two slices of the node. */
static void make_slices(const struct openb_node *node, void (*set)(json_t *slice))
{
	json_t *sets = json_array(), *devices = json_array();
	char name[16];

	for (uint32_t i = 0; i < node->n_devices; i++) {
		snprintf(name, sizeof(name), "%u", i);
		json_array_append_new(sets,
			json_pack("{s:s, s:{s:{s:s}}}", "name", name, "counters", "device", "value",
				"1"));
		json_array_append_new(devices, device_json(node, i, false));
		json_array_append_new(devices, device_json(node, i, true));
	}
	set(slice_json(node, "sharedCounters", sets));
	set(slice_json(node, "devices", devices));
}

static json_t *class_json(const char *name, const char *sign)
{
	char expression[128];

	snprintf(expression, sizeof(expression),
		"device.driver == \"" DRIVER "\" && %sdevice.allowMultipleAllocations", sign);
	return json_pack("{s:{s:s}, s:{s:[{s:{s:s}}]}}", "metadata", "name", name, "spec",
		"selectors", "cel", "expression", expression);
}

/* A selector for "A|B"; NULL: any model. */
static json_t *models_json(struct str models)
{
	_cleanup_buf_ struct buf text = BUF_INIT(1024);
	struct str model;
	bool is_first = true;

	if (!models.n)
		return NULL;
	buf_add_text(&text, "device.attributes[\"" DRIVER "\"].model in [");
	while (models.p) {
		str_split(&models, '|', &model);
		buf_addf(&text, "%s\"%.*s\"", is_first ? "" : ", ", STR_ARG(model));
		is_first = false;
	}
	buf_add_text(&text, "]");
	return json_pack("[{s:{s:s}}]", "cel", "expression", buf_text(&text));
}

static json_t *claim_json(const struct openb_pod *pod, const char *name)
{
	const bool is_share = pod->count == 1 && pod->share < 1000;
	json_t *request = json_pack("{s:s, s:i}", "deviceClassName",
		       is_share ? CLASS_SHARES : CLASS_WHOLE, "count", (int)pod->count),
	       *selectors = models_json(pod->models);
	char share[16], memory[24];

	if (is_share) {
		snprintf(share, sizeof(share), "%u", pod->share);
		/* in proportion, so that memory never decides */
		snprintf(memory, sizeof(memory), "%uMi", pod->share * 16 / 2 * 2);
		json_object_set_new(request, "capacity",
			json_pack("{s:{s:s, s:s}}", "requests", "share", share, "memory", memory));
	}
	if (selectors)
		json_object_set_new(request, "selectors", selectors);
	return json_pack("{s:{s:s, s:s, s:s, s:s}, s:{s:{s:[{s:s, s:o}]}}}", "metadata", "name",
		name, "namespace", "s", "uid", name, "resourceVersion", "1", "spec", "devices",
		"requests", "name", "r", "exactly", request);
}

/* ---- divvy-scheduler ---- */

static struct sched *sched;
static uint64_t sched_ns;

static void sched_give(int kind, json_t *json)
{
	struct error err = {0};

	if (!json || sched_set(sched, kind, json, &err) < 0)
		bench_die("an object is refused: %s", err.msg);
	json_decref(json);
}

static void sched_give_slice(json_t *json)
{
	sched_give(CLUSTER_SLICE, json);
}

static void sched_begin(const struct trace *t)
{
	const struct sched_config config = {.cluster = {.scheduler_name = "divvy-scheduler",
						    .minor = MINOR,
						    .policy = &place_scarcity},
		.seed = 1};
	struct error err = {0};

	if (sched_new(&config, &sched, &err) < 0)
		bench_die("%s", err.msg);
	sched_ns = FIRST_SECOND;
	sched_set_time(sched, sched_ns, FIRST_SECOND);
	sched_lead(sched, 1);
	cluster_note_served(sched_cluster(sched), CLUSTER_RESOURCE_CLAIM);
	sched_give(CLUSTER_DEVICE_CLASS, class_json(CLASS_SHARES, ""));
	sched_give(CLUSTER_DEVICE_CLASS, class_json(CLASS_WHOLE, "!"));
	for (uint32_t i = 0; i < t->n_nodes; i++) {
		_cleanup_free_ char *name = str_dup(t->nodes[i].name);
		char cpu[16], memory[24];

		snprintf(cpu, sizeof(cpu), "%um", t->nodes[i].cpu_milli);
		snprintf(memory, sizeof(memory), "%llu",
			(unsigned long long)t->nodes[i].memory_bytes);
		sched_give(OBJECT_NODE,
			json_pack("{s:{s:s}, s:{s:{s:s, s:s, s:s}}}", "metadata", "name", name,
				"status", "allocatable", "cpu", cpu, "memory", memory, "pods",
				"1000"));
		make_slices(&t->nodes[i], sched_give_slice);
	}
}

static json_t *pod_json(const struct openb_pod *pod, const char *name, const char *node)
{
	char cpu[16], memory[24];
	json_t *json, *spec;

	snprintf(cpu, sizeof(cpu), "%um", pod->cpu_milli);
	snprintf(memory, sizeof(memory), "%llu", (unsigned long long)pod->memory_bytes);
	spec = json_pack("{s:s, s:[{s:s, s:{s:{s:s, s:s}}}]}", "schedulerName", "divvy-scheduler",
		"containers", "name", "main", "resources", "requests", "cpu", cpu, "memory",
		memory);
	if (pod_milli(pod))
		json_object_set_new(spec, "resourceClaims",
			json_pack("[{s:s, s:s}]", "name", "gpu", "resourceClaimName", name));
	if (node)
		json_object_set_new(spec, "nodeName", json_string(node));
	json = json_pack("{s:{s:s, s:s, s:s}, s:o}", "metadata", "name", name, "namespace", "s",
		"uid", name, "spec", spec);
	return json;
}

/* Confirms the Binding and the allocation, as the API server does. */
static void sched_confirm(const struct cpod *bound, const struct openb_pod *pod, const char *name)
{
	char node[256];

	snprintf(node, sizeof(node), "%s", cpod_node(bound));
	if (pod_milli(pod)) {
		json_t *claim = claim_json(pod, name);

		json_object_set_new(
			json_object_get(claim, "metadata"), "resourceVersion", json_string("2"));
		json_object_set_new(claim, "status",
			json_pack("{s:O, s:[{s:s, s:s, s:s}]}", "allocation",
				cpod_claim(bound, 0).allocation, "reservedFor", "resource", "pods",
				"name", name, "uid", name));
		sched_give(CLUSTER_RESOURCE_CLAIM, claim);
	}
	sched_bound(sched, "s", name, name, true);
	sched_give(OBJECT_POD, pod_json(pod, name, node));
}

static bool sched_place(const struct openb_pod *pod, const char *name)
{
	struct sched_action action;
	struct error err = {0};

	if (pod_milli(pod))
		sched_give(CLUSTER_RESOURCE_CLAIM, claim_json(pod, name));
	sched_give(OBJECT_POD, pod_json(pod, name, NULL));
	for (;;) {
		const int r = sched_next(sched, &action, &err);

		if (r < 0)
			bench_die("%s", err.msg);
		if (r == 0) {
			/* a search may go on later */
			sched_ns += FIRST_SECOND / 100;
			sched_set_time(sched, sched_ns, sched_ns);
			continue;
		}
		if (action.act != SCHED_BIND && action.act != SCHED_CONDITION)
			continue;
		if (strcmp(cpod_name(action.pod), name) != 0)
			bench_die("%s is decided before %s", cpod_name(action.pod), name);
		break;
	}
	if (action.act == SCHED_BIND) {
		sched_confirm(action.pod, pod, name);
		return true;
	}
	sched_remove(sched, OBJECT_POD, "s", name);
	sched_remove(sched, CLUSTER_RESOURCE_CLAIM, "s", name);
	return false;
}

/* ---- kube-scheduler, and the first node ---- */

struct plain {
	const struct trace *trace;
	enum policy policy;
	struct claims *claims;
	struct claims_place **places; /* of the pods so far */
	uint32_t n_places;
	uint64_t *cpu, *memory; /* free, by node */
	struct rand rand;
	uint32_t start; /* kube-scheduler's next first node */
};

static struct claims *plain_claims;

static void plain_give(enum claims_kind kind, json_t *json)
{
	struct error err = {0};

	if (!json || claims_set(plain_claims, kind, json, &err) < 0)
		bench_die("an object is refused: %s", err.msg);
	json_decref(json);
}

static void plain_give_slice(json_t *json)
{
	plain_give(CLAIMS_SLICE, json);
}

static void plain_begin(struct plain *p, const struct trace *t, enum policy policy)
{
	*p = (struct plain){.trace = t, .policy = policy, .rand = rand_seeded(1)};
	if (claims_new(1, &p->claims, NULL) < 0)
		bench_die("out of memory");
	plain_claims = p->claims;
	p->places = calloc(t->n_order + 1ul, sizeof(struct claims_place *));
	p->cpu = calloc(t->n_nodes + 1ul, sizeof(*p->cpu));
	p->memory = calloc(t->n_nodes + 1ul, sizeof(*p->memory));
	if (!p->places || !p->cpu || !p->memory)
		bench_die("out of memory");
	plain_give(CLAIMS_CLASS, class_json(CLASS_SHARES, ""));
	plain_give(CLAIMS_CLASS, class_json(CLASS_WHOLE, "!"));
	for (uint32_t i = 0; i < t->n_nodes; i++) {
		p->cpu[i] = t->nodes[i].cpu_milli;
		p->memory[i] = t->nodes[i].memory_bytes;
		make_slices(&t->nodes[i], plain_give_slice);
	}
}

static void plain_end(struct plain *p)
{
	for (uint32_t i = 0; i < p->n_places; i++)
		claims_release(p->claims, p->places[i]);
	claims_free(p->claims);
	free(p->places);
	free(p->cpu);
	free(p->memory);
}

/* kube-scheduler's default numFeasibleNodesToFind(). */
static uint32_t kube_nodes_to_find(uint32_t n)
{
	const uint32_t percent = n / 125 < 45 ? 50 - n / 125 : 5;

	return n < 100 ? n : (uint32_t)fmax(n * percent / 100, 100);
}

/* The sum of the plugins NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation. */
static int64_t kube_score(const struct plain *p, uint32_t i, const struct openb_pod *pod)
{
	const double cpu_all = p->trace->nodes[i].cpu_milli,
		     memory_all = (double)p->trace->nodes[i].memory_bytes,
		     cpu = ((double)p->cpu[i] - pod->cpu_milli) / cpu_all,
		     memory = ((double)p->memory[i] - (double)pod->memory_bytes) / memory_all;

	return ((int64_t)(cpu * 100) + (int64_t)(memory * 100)) / 2 +
		(int64_t)((1 - fabs(cpu - memory) / 2) * 100);
}

/* Returns the node for the pod; n_nodes: none fits. search NULL: the pod has no claim. */
static uint32_t plain_choose(
	struct plain *p, const struct openb_pod *pod, struct claims_search *search)
{
	static const struct labels no_labels;
	const uint32_t n = p->trace->n_nodes, most = p->policy == KUBE ? kube_nodes_to_find(n) : 1;
	uint32_t chosen = n, n_fit = 0, n_equal = 0, k;
	int64_t best = -1;

	for (k = 0; k < n && n_fit < most; k++) {
		const uint32_t i = (p->start + k) % n;
		_cleanup_free_ char *name = str_dup(p->trace->nodes[i].name);
		const struct claims_node node = {name, &no_labels};
		const char *why;
		int64_t score;

		if (p->cpu[i] < pod->cpu_milli || p->memory[i] < pod->memory_bytes ||
			(search && !claims_search_fits(search, &node, &why)))
			continue;
		n_fit++;
		score = p->policy == KUBE ? kube_score(p, i, pod) : 0;
		/* kube-scheduler takes a random one of equal nodes. */
		n_equal = score > best ? 1 : n_equal + (score == best);
		if (score > best || (score == best && rand_u64(&p->rand) % n_equal == 0))
			chosen = i;
		best = score > best ? score : best;
	}
	if (p->policy == KUBE)
		p->start = (p->start + k) % n;
	return chosen;
}

static bool plain_place(struct plain *p, const struct openb_pod *pod, const char *name)
{
	static const struct labels no_labels;
	const struct claims_name names[] = {{name, "gpu", false}};
	const struct claims_pod own = {"s", name, name, names, 1};
	_cleanup_(claims_search_free_p) struct claims_search *search = NULL;
	_cleanup_free_ char *node_name = NULL;
	struct error err = {0};
	uint32_t node;

	plain_claims = p->claims;
	if (pod_milli(pod)) {
		plain_give(CLAIMS_CLAIM, claim_json(pod, name));
		if (claims_search_new(p->claims, &own, &search, &err) < 0)
			bench_die("%s", err.msg);
	}
	node = plain_choose(p, pod, search);
	if (node == p->trace->n_nodes) {
		claims_search_free(TAKE_PTR(search));
		claims_remove(p->claims, CLAIMS_CLAIM, "s", name);
		return false;
	}
	node_name = str_dup(p->trace->nodes[node].name);
	if (search &&
		claims_assume(search, &(struct claims_node){node_name, &no_labels},
			"2026-01-01T00:00:00Z", &p->places[p->n_places++], &err) < 0)
		bench_die("%s", err.msg);
	p->cpu[node] -= pod->cpu_milli;
	p->memory[node] -= pod->memory_bytes;
	return true;
}

/* ---- runs ---- */

struct run {
	double allocated; /* percent */
	double pod_ms;    /* processor time of a decision */
};

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static struct run run_policy(const struct trace *t, enum policy policy)
{
	uint64_t requested = 0, allocated = 0;
	const double from = cpu_ms();
	struct plain plain;
	uint32_t i;

	if (policy == DIVVY)
		sched_begin(t);
	else
		plain_begin(&plain, t, policy);
	for (i = 0; i < t->n_order && requested < t->milli; i++) {
		const struct openb_pod *pod = &t->pods[t->order[i]];
		char name[32];

		snprintf(name, sizeof(name), "p%u", i);
		requested += pod_milli(pod);
		if (policy == DIVVY ? sched_place(pod, name) : plain_place(&plain, pod, name))
			allocated += pod_milli(pod);
	}
	if (policy == DIVVY)
		sched_free(TAKE_PTR(sched));
	else
		plain_end(&plain);
	return (struct run){
		100.0 * (double)allocated / (double)t->milli, (cpu_ms() - from) / MAX(i, 1u)};
}

static void run_trace(const char *name)
{
	double sum[POLICIES] = {0}, time[POLICIES] = {0}, least = 100;
	const unsigned int n = bench_quick() ? 1 : SEEDS;
	char metric[96], detail[96];

	for (unsigned int seed = 42; seed < 42 + n; seed++) {
		struct run run[POLICIES];
		struct trace t;

		trace_read(&t, name, seed);
		for (enum policy p = 0; p < POLICIES; p++) {
			run[p] = run_policy(&t, p);
			bench_note("%s, order %u, %s: %.2f %%, %.2f ms a pod", name, seed,
				policies[p], run[p].allocated, run[p].pod_ms);
			sum[p] += run[p].allocated / n;
			time[p] += run[p].pod_ms / n;
		}
		least = fmin(least, run[DIVVY].allocated - run[KUBE].allocated);
		trace_done(&t);
	}
	for (enum policy p = 0; p < POLICIES; p++) {
		snprintf(metric, sizeof(metric), "claims.%s.%s.alloc100", name, policies[p]);
		snprintf(detail, sizeof(detail), "%.2f ms a pod", time[p]);
		bench_metric(metric, sum[p], "%", "", n, true, detail);
	}
	snprintf(metric, sizeof(metric), "claims.%s.gain100", name);
	bench_metric(metric, least, "pp", ">= 0", n, true,
		"divvy-scheduler less kube-scheduler, the least of all orders");
}

int main(int argc, char **argv)
{
	bench_init("claims", argc, argv);
	if (!traces_folder())
		return 0;
	for (size_t i = 0; i < TRACES; i++)
		if (bench_wants(traces[i]))
			run_trace(traces[i]);
	return bench_done();
}
