/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.*: memory and processor time of divvy-scheduler's state by the size of the cluster, without
 * an API server and in one thread. Each node has 8 devices and 6 pods with a share, half of a
 * device in all. The objects have the fields that API servers send. A process of its own measures
 * each size, so that the memory is that of this size alone. The values are the memory in MiB, and
 * the processor time to take in a bound pod, to place a pod, and to explain one that fits nowhere.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "kube/time.h"
#include "scheduler/sched.h"

#define DEVICES 8u
#define PODS_EACH 6u
#define PENDING 1000u
#define NOWHERE 20u
#define TEXT_MAX (32u << 10)
#define MINOR 36u

static struct sched *sched;

struct result {
	double mib, take_in_us, place_us, why_ms;
};

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double peak_mib(void)
{
	char line[256];
	unsigned long long kib = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmHWM:", 6))
			kib = strtoull(line + 6, NULL, 10);
	if (f)
		fclose(f);
	return (double)kib / 1024;
}

/* Sets an object of JSON with ' for ". */
static void set(int kind, struct buf *text)
{
	struct error err = {0};
	json_t *json;

	for (size_t i = 0; i < text->n; i++)
		text->p[i] = text->p[i] == '\'' ? '"' : text->p[i];
	json = json_loadb(text->p, text->n, 0, NULL);
	sched_set_time(sched, clock_now_ns(), clock_real_ns());
	if (!json || sched_set(sched, kind, json, &err) < 0)
		bench_die("%s: %s", err.msg, buf_text(text));
	json_decref(json);
	buf_clear(text);
}

static void add_gpus(struct buf *b, unsigned int n)
{
	buf_addf(b,
		"{'metadata':{'name':'n%u'},'status':{'owner':'divvy','slots':{'total':512},"
		"'devices':[",
		n);
	for (unsigned int d = 0; d < DEVICES; d++)
		buf_addf(b,
			"%s{'uuid':'GPU-8c1f%u-%u','index':%u,'model':'NVIDIA H100 80GB HBM3',"
			"'memoryBytes':85899345920,'health':'Healthy','owner':'divvy','numa':%u}",
			d ? "," : "", n, d, d, d / 4);
	buf_add_text(b, "]}}");
	set(CLUSTER_GPU_NODE, b);
}

static void add_node(struct buf *b, unsigned int n)
{
	buf_addf(b,
		"{'metadata':{'name':'n%u','uid':'node-%u','labels':{'kubernetes.io/hostname':'n%u'"
		",'kubernetes.io/arch':'amd64','kubernetes.io/os':'linux',"
		"'topology.kubernetes.io/zone':'zone-1','divvy.gpu/owner':'divvy'}},"
		"'status':{'allocatable':{'cpu':'128','memory':'1Ti','pods':'250',"
		"'ephemeral-storage':'2Ti','divvy.gpu/slot':'512','divvy.gpu/milli':'8000',"
		"'divvy.gpu/memory-mib':'655360'}}}",
		n, n, n);
	set(OBJECT_NODE, b);
	add_gpus(b, n);
	buf_addf(b,
		"{'metadata':{'name':'n%u'},'spec':{'leaseDurationSeconds':3600,'renewTime':'%s'}}",
		n, kube_time_format_micro(clock_real_ns()).s);
	set(CLUSTER_LEASE, b);
}

/* node: NULL for a pod that waits. annotations: further JSON members. */
static void add_pod(
	struct buf *b, const char *kind, unsigned int i, const char *node, const char *annotations)
{
	buf_addf(b,
		"{'metadata':{'name':'%s-%u','namespace':'team','uid':'%s-0000-0000-%u','labels':{"
		"'app':'%s','divvy.gpu/tenant':'true'},'annotations':{'divvy.gpu/request':'0.1',"
		"'divvy.gpu/memory':'8Gi'%s},'creationTimestamp':'2026-01-01T00:00:00Z'},'spec':{"
		"'schedulerName':'divvy-scheduler','priority':0,'restartPolicy':'Always',"
		"'containers':[{'name':'main','image':'registry.example/team/worker:1.2.3','env':[",
		kind, i, kind, i, kind, annotations);
	for (unsigned int k = 0; k < 12; k++)
		buf_addf(
			b, "%s{'name':'SETTING_%u','value':'value number %u'}", k ? "," : "", k, k);
	buf_addf(b,
		"],'resources':{'requests':{'cpu':'100m','memory':'256Mi','divvy.gpu/slot':'1',"
		"'divvy.gpu/milli':'100','divvy.gpu/memory-mib':'8192'}}}],'tolerations':[{'key':"
		"'node.kubernetes.io/not-ready','operator':'Exists','effect':'NoExecute',"
		"'tolerationSeconds':300},{'key':'node.kubernetes.io/unreachable','operator':"
		"'Exists','effect':'NoExecute','tolerationSeconds':300}]%s%s%s},'status':{'phase':"
		"'%s'}}",
		node ? ",'nodeName':'" : "", node ? node : "", node ? "'" : "",
		node ? "Running" : "Pending");
	set(OBJECT_POD, b);
}

static void add_bound(struct buf *b, unsigned int i, unsigned int n_nodes)
{
	char node[32], keys[512];

	snprintf(node, sizeof(node), "n%u", i % n_nodes);
	snprintf(keys, sizeof(keys),
		",'divvy.gpu/devices':'main=GPU-8c1f%u-%u','divvy.gpu/granted-request':'main=0.1',"
		"'divvy.gpu/granted-limit':'main=1','divvy.gpu/granted-memory':'main=8Gi',"
		"'divvy.gpu/granted-class':'main=standard','divvy.gpu/epoch':'1'",
		i % n_nodes, i / n_nodes % DEVICES);
	add_pod(b, "bound", i, node, keys);
}

/* Carries out decisions until `n` pods are placed or have a reason. */
static void decide(enum sched_act act, unsigned int n)
{
	struct sched_action action;
	struct error err = {0};

	sched_set_time(sched, clock_now_ns(), clock_real_ns());
	for (unsigned int done = 0; done < n;) {
		const int r = sched_next(sched, &action, &err);

		if (r <= 0)
			bench_die("%u of %u pods are decided: %s", done, n, err.msg);
		done += action.act == act;
	}
}

static struct result measure(unsigned int n_nodes)
{
	const struct sched_config config = {.cluster = {.scheduler_name = "divvy-scheduler",
						    .minor = MINOR,
						    .policy = &place_scarcity}};
	_cleanup_buf_ struct buf b = BUF_INIT(TEXT_MAX);
	const double start_mib = peak_mib();
	struct result result;
	struct error err;
	double from;

	if (sched_new(&config, &sched, &err) < 0)
		bench_die("%s", err.msg);
	sched_lead(sched, 1);
	for (unsigned int n = 0; n < n_nodes; n++)
		add_node(&b, n);
	from = cpu_s();
	for (unsigned int i = 0; i < n_nodes * PODS_EACH; i++)
		add_bound(&b, i, n_nodes);
	result.take_in_us = (cpu_s() - from) * 1e6 / (n_nodes * PODS_EACH);
	for (unsigned int i = 0; i < PENDING; i++)
		add_pod(&b, "pending", i, NULL, "");
	from = cpu_s();
	decide(SCHED_BIND, PENDING);
	result.place_us = (cpu_s() - from) * 1e6 / PENDING;
	for (unsigned int i = 0; i < NOWHERE; i++)
		add_pod(&b, "nowhere", i, NULL, ",'divvy.gpu/model':'none-such'");
	from = cpu_s();
	decide(SCHED_CONDITION, NOWHERE);
	result.why_ms = (cpu_s() - from) * 1e3 / NOWHERE;
	result.mib = peak_mib() - start_mib;
	return result;
}

static struct result measure_apart(unsigned int n_nodes)
{
	struct result result;
	int fds[2], status;
	pid_t pid;

	if (pipe(fds) < 0 || (pid = fork()) < 0)
		bench_die("no process");
	if (pid == 0) {
		result = measure(n_nodes);
		_exit(write(fds[1], &result, sizeof(result)) == (ssize_t)sizeof(result) ? 0 : 1);
	}
	close(fds[1]);
	if (read(fds[0], &result, sizeof(result)) != (ssize_t)sizeof(result))
		bench_die("%u nodes could not be measured", n_nodes);
	close(fds[0]);
	waitpid(pid, &status, 0);
	return result;
}

static void show(const char *what, unsigned int n_nodes, double value, const char *unit,
	const char *goal, const char *detail)
{
	char name[64];

	snprintf(name, sizeof(name), "state.%s_%u", what, n_nodes);
	bench_metric(name, value, unit, goal, 1, false, detail);
}

int main(int argc, char **argv)
{
	static const unsigned int sizes[] = {100, 1000, 5000, 20000};

	bench_init("state", argc, argv);
	for (size_t i = 0; i < ARRAY_SIZE(sizes) - (bench_quick() ? 2 : 0); i++) {
		const struct result r = measure_apart(sizes[i]);
		const bool is_full = sizes[i] == 5000;
		char what[96];

		snprintf(what, sizeof(what), "%u nodes with %u devices, %u pods", sizes[i],
			sizes[i] * DEVICES, sizes[i] * PODS_EACH);
		show("mib", sizes[i], r.mib, "MiB", is_full ? "<= 400" : "", what);
		show("take_in_us", sizes[i], r.take_in_us, "us", "", "a bound pod of the list");
		show("place_us", sizes[i], r.place_us, "us", "", "a pod that fits");
		show("why_ms", sizes[i], r.why_ms, "ms", is_full ? "<= 200" : "",
			"a pod that fits nowhere");
	}
	return bench_done();
}
