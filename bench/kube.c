/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kube.*: the API client against the API server of KUBECONFIG (scripts/bench starts one). The
 * client lists 10,000 pods with status, as a Deployment's controller makes them, into a cache of
 * small objects. Then the pods change at 500 a second.
 *
 * A process of its own makes each list, so that its memory is that of the list. The latency of a
 * frame counts from the earliest time at which its last byte can have arrived. This is the end of
 * the loop's wait, or without a wait the start of the previous batch. The processor time in the
 * same result does not depend on other programs' load.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "bench/bench.h"
#include "kube/cache.h"
#include "kube/write.h"

#define PODS 10000
#define PODS_QUICK 1000
#define LISTS 5
#define POD_BYTES 4096
#define RATE 500u
#define SPACE "bench"
#define LIST_ONCE "list-once"
#define PATIENCE_NS (600 * NSEC_PER_SEC)

static struct loop *loop;
static struct kube_config *config;
static struct kube_client *client;

static void begin(void)
{
	struct error err = {0};

	if (loop_new(&loop) < 0 || kube_config_load(NULL, &config, &err) < 0 ||
		kube_client_new(loop, config, NULL, &client, &err) < 0)
		bench_die("%s", err.msg);
}

static void end(void)
{
	kube_client_free(client);
	kube_config_free(config);
	loop_free(loop);
}

/* Counts of many writes; the client limits how many are in flight at once. */
static struct {
	size_t n_open, n_failed;
	struct error error;
} writes;

static void on_written(void *data, const struct kube_answer *answer)
{
	writes.n_open--;
	if (answer->result < 0 && answer->result != -EEXIST) {
		writes.n_failed++;
		writes.error = answer->error;
	}
}

static struct kube_write write_of(const char *name)
{
	return (struct kube_write){.target = {"v1", "pods", SPACE, name, NULL},
		.field_manager = "kube-controller-manager",
		.timeout_ns = PATIENCE_NS,
		.done = on_written};
}

static void wait_for_writes(size_t at_most)
{
	while (writes.n_open > at_most)
		if (loop_run_once(loop, CLOCK_NEVER) < 0)
			bench_die("the loop ended");
	if (writes.n_failed)
		bench_die("%s", writes.error.msg);
}

static json_t *environment(void)
{
	json_t *env = json_array();
	char name[32];

	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "SETTING_%d", i);
		json_array_append_new(env,
			json_pack("{ss, ss}", "name", name, "value",
				"a value of some length, as they are"));
	}
	return env;
}

static json_t *pod_of(const char *name)
{
	return json_pack("{s:{ss, ss, s:{ss, ss}, s:{ss, ss}, s:[{ss, ss, ss, ss, sb, sb}]}, "
			 "s:{ss, ss, s:[{ss, ss, ss, s:o, s:{s:{ss, ss}, s:{ss, ss}}, "
			 "s:[{si, ss}]}]}}",
		"metadata", "name", name, "generateName", "worker-7d9c6bb6f5-", "labels", "app",
		"worker", "pod-template-hash", "7d9c6bb6f5", "annotations", "divvy.gpu/request",
		"0.3", "divvy.gpu/limit", "0.6", "ownerReferences", "apiVersion", "apps/v1", "kind",
		"ReplicaSet", "name", "worker-7d9c6bb6f5", "uid",
		"5f0c0a3e-3a55-4a7c-9c53-7b2f7d0f6a11", "controller", 1, "blockOwnerDeletion", 1,
		"spec", "schedulerName", "nobody", "restartPolicy", "Always", "containers", "name",
		"main", "image", "registry.example/team/worker:1.2.3", "imagePullPolicy",
		"IfNotPresent", "env", environment(), "resources", "requests", "cpu", "1", "memory",
		"1Gi", "limits", "cpu", "2", "memory", "2Gi", "ports", "containerPort", 8080,
		"protocol", "TCP");
}

static json_t *status_of(int n)
{
	char value[32];
	json_t *conditions = json_array();
	static const char *const types[] = {
		"Initialized", "Ready", "ContainersReady", "PodScheduled"};

	snprintf(value, sizeof(value), "%d", n);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		json_array_append_new(conditions,
			json_pack("{ss, ss, ss, ss}", "type", types[i], "status", "True",
				"lastTransitionTime", "2026-01-01T00:00:00Z", "reason", value));
	return json_pack("{s:{ss, ss, s:o}}", "status", "phase", "Running", "podIP", "10.0.0.1",
		"conditions", conditions);
}

static void name_of(char name[static 64], int i)
{
	snprintf(name, 64, "worker-7d9c6bb6f5-%05d", i);
}

static void set_status(int i, int n)
{
	char name[64];
	struct kube_write w;
	_cleanup_json_ json_t *status = status_of(n);

	name_of(name, i);
	w = write_of(name);
	w.field_manager = "kubelet";
	w.target.subresource = "status";
	writes.n_open++;
	if (kube_patch(client, &w, KUBE_PATCH_STRATEGIC, status, NULL) < 0)
		bench_die("a patch was not sent");
}

static void make_pods(int n)
{
	struct kube_write space = {
		.target = {"v1", "namespaces", NULL, NULL, NULL}, .done = on_written};
	struct kube_write w = write_of(NULL);
	_cleanup_json_ json_t *name_space = json_pack("{s:{ss}}", "metadata", "name", SPACE);
	char name[64];

	writes.n_open++;
	if (kube_create(client, &space, name_space, NULL) < 0)
		bench_die("a namespace was not made");
	wait_for_writes(0);
	/* The namespace's service account appears a moment later. */
	clock_sleep_until_ns(clock_now_ns() + 3 * NSEC_PER_SEC);
	for (int i = 0; i < n; i++) {
		_cleanup_json_ json_t *pod = NULL;

		name_of(name, i);
		pod = pod_of(name);
		writes.n_open++;
		if (!pod || kube_create(client, &w, pod, NULL) < 0)
			bench_die("a pod was not made");
		wait_for_writes(256);
	}
	wait_for_writes(0);
	for (int i = 0; i < n; i++) {
		set_status(i, 0);
		wait_for_writes(256);
	}
	wait_for_writes(0);
}

static void on_pod(void *data, const struct kube_answer *answer)
{
	*(size_t *)data = answer->body.n;
	writes.n_open--;
}

/* The measured size includes managedFields, as in a list. */
static void check_size(void)
{
	struct kube_write w;
	size_t bytes = 0;
	char name[64];

	name_of(name, 0);
	w = write_of(name);
	w.done = on_pod;
	w.data = &bytes;
	writes.n_open++;
	if (kube_read(client, &w, NULL) < 0)
		bench_die("a pod was not read");
	wait_for_writes(0);
	bench_note("a pod is %zu bytes of JSON", bytes);
	if (bytes < POD_BYTES)
		bench_die("a pod must be at least %d bytes", POD_BYTES);
}

/* The fields of a pod that a scheduler keeps. */
struct own {
	char node[64], phase[16], request[16];
	uint64_t cpu_milli, memory_bytes;
};

static int project(void *data, const struct kube_object *object, void **ret_own, struct error *err)
{
	struct own *own = calloc(1, sizeof(*own));
	const char *phase = kube_json_text_at(object->json, "status", "phase", NULL);
	const char *request = kube_json_text_at(
		object->json, "metadata", "annotations", "divvy.gpu/request", NULL);

	if (!own)
		return -ENOMEM;
	snprintf(own->phase, sizeof(own->phase), "%s", phase ? phase : "");
	snprintf(own->request, sizeof(own->request), "%s", request ? request : "");
	*ret_own = own;
	return 0;
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Latencies of the frames, taken when the handler is called. */
static struct {
	bool is_synced;
	uint64_t asked_ns; /* when the loop began to wait */
	uint64_t last_ns;  /* when the previous batch began */
	/* this process's processor time at asked_ns and at last_ns */
	double asked_cpu_s, last_cpu_s;
	double *ms, *cpu_ms;
	size_t n, room;
} frames;

#define WAITED_NS (20 * NSEC_PER_USEC)

/* Did the loop wait? Then no byte of the current batch can have been there before the wait. */
static bool has_waited(void)
{
	return loop_now_ns(loop) > frames.asked_ns + WAITED_NS;
}

static void synced(void *data)
{
	frames.is_synced = true;
}

static void updated(void *data, const struct kube_entry *entry, void *old)
{
	const uint64_t came_ns = has_waited() ? loop_now_ns(loop) : frames.last_ns;
	const double came_cpu_s = has_waited() ? frames.asked_cpu_s : frames.last_cpu_s;

	if (frames.n == frames.room)
		return;
	frames.cpu_ms[frames.n] = (cpu_seconds() - came_cpu_s) * 1e3;
	frames.ms[frames.n++] = (double)(clock_now_ns() - came_ns) / 1e6;
}

static void trouble(void *data, const struct error *err)
{
	bench_die("%s", err->msg);
}

static struct kube_cache *cache_new(void)
{
	const struct kube_cache_handler handler = {.project = project,
		.release = free,
		.updated = updated,
		.synced = synced,
		.trouble = trouble};
	const struct kube_reflect_options options = {
		.path = "/api/v1/pods", .idle_ns = 60 * NSEC_PER_SEC};
	struct kube_cache *cache;
	struct error err = {0};

	if (kube_cache_new(client, &options, &handler, &cache, &err) < 0)
		bench_die("%s", err.msg);
	return cache;
}

static uint64_t status_bytes(const char *field)
{
	char line[256];
	unsigned long long kib = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, field, strlen(field)))
			kib = strtoull(line + strlen(field) + 1, NULL, 10);
	if (f)
		fclose(f);
	return kib << 10;
}

/*
 * Makes one list, in a process of its own. Returns seconds, the MiB by which the process' memory
 * grew at most, and seconds of processor time.
 */
static void list_once(double ret[static 3], int n)
{
	const uint64_t idle_bytes = status_bytes("VmRSS");
	const double cpu_s = cpu_seconds();
	const uint64_t start_ns = clock_now_ns();
	struct kube_cache *cache = cache_new();

	while (!frames.is_synced)
		loop_run_once(loop, CLOCK_NEVER);
	ret[0] = (double)(clock_now_ns() - start_ns) / 1e9;
	ret[2] = cpu_seconds() - cpu_s;
	ret[1] = (double)(status_bytes("VmHWM") - idle_bytes) / (1 << 20);
	if (kube_cache_count(cache) < (size_t)n)
		bench_die("%zu pods are cached of %d", kube_cache_count(cache), n);
	kube_cache_free(cache);
}

static void warm_up(void)
{
	const struct kube_request request = {.path = "/version", .done = on_written};

	/* This request makes libcurl, TLS and the connection ready for the list. */
	writes.n_open++;
	kube_call_start(client, &request, NULL, NULL);
	wait_for_writes(0);
}

/* bench-kube LIST_ONCE PODS FD */
static int list_for_parent(char **argv)
{
	double result[3];
	const int fd = (int)strtol(argv[3], NULL, 10);

	begin();
	warm_up();
	list_once(result, (int)strtol(argv[2], NULL, 10));
	end();
	return write(fd, result, sizeof(result)) == (ssize_t)sizeof(result) ? 0 : 1;
}

static void list_apart(double ret[static 3], int n)
{
	int fds[2], status;
	pid_t pid;

	if (pipe(fds) < 0)
		bench_die("a pipe: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		char count[16], fd[16];

		/*
		 * A new program: reused memory of this process's heap would hide the list's memory.
		 */
		snprintf(count, sizeof(count), "%d", n);
		snprintf(fd, sizeof(fd), "%d", fds[1]);
		execl("/proc/self/exe", "bench-kube", LIST_ONCE, count, fd, (char *)NULL);
		_exit(1);
	}
	close(fds[1]);
	if (pid < 0 || read(fds[0], ret, 3 * sizeof(*ret)) != 3 * (ssize_t)sizeof(*ret))
		bench_die("a list failed");
	close(fds[0]);
	waitpid(pid, &status, 0);
}

static void measure_lists(int n)
{
	double s[LISTS], mib[LISTS], cpu[LISTS];
	char detail[64];

	for (int i = 0; i < LISTS; i++) {
		double one[3];

		list_apart(one, n);
		s[i] = one[0];
		mib[i] = one[1];
		cpu[i] = one[2];
		bench_note("%d pods: %.2f s, %.2f s of our processor time, %.1f MiB", n, one[0],
			one[2], one[1]);
	}
	snprintf(detail, sizeof(detail), "%d pods, median of %d", n, LISTS);
	bench_metric("kube.list10k_s", bench_median(s, LISTS), "s", "<= 2", LISTS, false, detail);
	bench_metric("kube.list10k_cpu_s", bench_median(cpu, LISTS), "s", "", LISTS, false,
		"our own part of it");
	snprintf(detail, sizeof(detail), "%d pods, peak minus idle, median of %d", n, LISTS);
	bench_metric("kube.list10k_rss_mib", bench_median(mib, LISTS), "MiB", "<= 60", LISTS, false,
		detail);
}

/* Starts a process that changes RATE (500) pods a second, until it is killed. */
static pid_t start_changes(int n)
{
	const pid_t pid = fork();
	uint64_t next_ns;

	if (pid != 0)
		return pid;
	begin();
	next_ns = clock_now_ns();
	for (int i = 0;; i++) {
		while (clock_now_ns() < next_ns)
			loop_run_once(loop, next_ns);
		next_ns += NSEC_PER_SEC / RATE;
		set_status(i % n, i + 1);
		wait_for_writes(128);
	}
}

static void measure_frames(int n)
{
	const unsigned int seconds = bench_quick() ? 5 : 20;
	struct kube_cache *cache = cache_new();
	char detail[64];
	pid_t pid;
	int status;

	while (!frames.is_synced)
		loop_run_once(loop, CLOCK_NEVER);
	frames.room = (size_t)RATE * seconds;
	frames.ms = calloc(frames.room, sizeof(*frames.ms));
	frames.cpu_ms = calloc(frames.room, sizeof(*frames.cpu_ms));
	if (!frames.ms || !frames.cpu_ms)
		bench_die("out of memory");
	pid = start_changes(n);
	frames.asked_ns = clock_now_ns();
	const uint64_t start_ns = frames.asked_ns;
	while (frames.n < frames.room && clock_now_ns() < start_ns + 4 * seconds * NSEC_PER_SEC) {
		frames.asked_cpu_s = cpu_seconds();
		frames.asked_ns = clock_now_ns();
		loop_run_once(loop, frames.asked_ns + NSEC_PER_SEC);
		frames.last_ns = loop_now_ns(loop);
		frames.last_cpu_s = frames.asked_cpu_s;
	}
	snprintf(detail, sizeof(detail), "%.0f events/s",
		(double)frames.n * 1e9 / (double)(clock_now_ns() - start_ns));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	bench_sort(frames.ms, frames.n);
	bench_sort(frames.cpu_ms, frames.n);
	bench_metric("kube.watch_ms_p50", bench_quantile(frames.ms, frames.n, 0.5), "ms", "",
		(unsigned int)frames.n, false, detail);
	bench_metric("kube.watch_ms_p99", bench_quantile(frames.ms, frames.n, 0.99), "ms", "<= 2",
		(unsigned int)frames.n, false, detail);
	bench_metric("kube.watch_cpu_ms_p99", bench_quantile(frames.cpu_ms, frames.n, 0.99), "ms",
		"", (unsigned int)frames.n, false,
		"our own processor time of it: the rest is what others had the processor for");
	free(frames.ms);
	free(frames.cpu_ms);
	kube_cache_free(cache);
}

int main(int argc, char **argv)
{
	int n;

	if (argc == 4 && !strcmp(argv[1], LIST_ONCE))
		return list_for_parent(argv);
	bench_init("kube", argc, argv);
	n = bench_quick() ? PODS_QUICK : PODS;
	begin();
	bench_note("making %d pods", n);
	make_pods(n);
	check_size();
	end();
	measure_lists(n);
	begin();
	measure_frames(n);
	end();
	return bench_done();
}
