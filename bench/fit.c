/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit.*: time to check one pod against all nodes, in one thread: 5,000 nodes in 20 zones with
 * 30,000 pods, one in ten of them with anti-affinity by host. The pods under test request resources
 * alone, have spread constraints and affinity, or have a volume. The bench also measures the time
 * to build the view from JSON, and its memory.
 */
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "kuberules/fit.h"

static uint32_t n_nodes = 5000, n_pods = 30000;

static void put(struct view *view, enum object_kind kind, const char *text)
{
	json_t *json = json_loads(text, 0, NULL);
	struct error err = {0};

	if (!json || view_set(view, kind, json, &err) < 0)
		bench_die("%s: %s", err.msg, text);
	json_decref(json);
}

static void put_pod(struct view *view, const char *name, uint32_t app, const char *spec)
{
	char text[2048];

	snprintf(text, sizeof(text),
		"{\"metadata\":{\"name\":\"%s\",\"namespace\":\"ns%u\",\"labels\":{\"app\":\"a%u\","
		"\"pod-template-hash\":\"5d9c7b8f6\",\"tier\":\"t%u\"}},\"spec\":{%s\"containers\":"
		"[{"
		"\"name\":\"c\",\"image\":\"i\",\"resources\":{\"requests\":{\"cpu\":\"500m\","
		"\"memory\":\"1Gi\"}}}]}}",
		name, app % 10, app, app % 3, spec);
	put(view, OBJECT_POD, text);
}

static void put_nodes(struct view *view)
{
	char text[1024];

	for (uint32_t i = 0; i < n_nodes; i++) {
		snprintf(text, sizeof(text),
			"{\"metadata\":{\"name\":\"n%u\",\"labels\":{\"kubernetes.io/"
			"hostname\":\"n%u\","
			"\"topology.kubernetes.io/zone\":\"z%u\",\"kubernetes.io/os\":\"linux\"}},"
			"\"status\":{\"allocatable\":{\"cpu\":\"32\",\"memory\":\"128Gi\",\"pods\":"
			"\"110\","
			"\"ephemeral-storage\":\"100Gi\"}}}",
			i, i, i % 20);
		put(view, OBJECT_NODE, text);
	}
}

#define TERM(app, key) \
	"\"requiredDuringSchedulingIgnoredDuringExecution\":[{\"labelSelector\":{\"matchLabels\":" \
	"{" \
	"\"app\":\"" app "\"}},\"topologyKey\":\"" key "\"}]"
#define HOST "kubernetes.io/hostname"
#define ZONE "topology.kubernetes.io/zone"

static void put_pods(struct view *view)
{
	struct rand r = rand_seeded(1);
	char name[32], spec[512];

	for (uint32_t i = 0; i < n_pods; i++) {
		uint32_t app = (uint32_t)rand_below(&r, 300);

		snprintf(name, sizeof(name), "p%u", i);
		snprintf(spec, sizeof(spec), "\"nodeName\":\"n%u\",%s",
			(uint32_t)rand_below(&r, n_nodes),
			i % 10 ? "" : "\"affinity\":{\"podAntiAffinity\":{" TERM("a7", HOST) "}},");
		put_pod(view, name, app, spec);
	}
}

static const struct {
	const char *name, *spec;
} cases[] = {
	{"fit.plain_ms", ""},
	{"fit.affine_ms",
		"\"affinity\":{\"podAffinity\":{" TERM("a7", ZONE) "},\"podAntiAffinity\":{" TERM(
			"a17",
			HOST) "}},\"topologySpreadConstraints\":[{\"maxSkew\":5,\"topologyKey\":"
			      "\"" ZONE "\",\"whenUnsatisfiable\":\"DoNotSchedule\","
			      "\"labelSelector\":{\"matchLabels\":{\"app\":\"a7\"}}}],"},
	{"fit.volume_ms",
		"\"volumes\":[{\"name\":\"v\",\"persistentVolumeClaim\":{\"claimName\":"
		"\"c\"}},{\"name\":\"d\",\"gcePersistentDisk\":{\"pdName\":\"x\"}}],"},
};

static void put_storage(struct view *view)
{
	put(view, OBJECT_CLASS,
		"{\"metadata\":{\"name\":\"w\"},\"provisioner\":\"x.io\",\"volumeBindingMode\":"
		"\"WaitForFirstConsumer\"}");
	put(view, OBJECT_CLAIM,
		"{\"metadata\":{\"name\":\"c\",\"namespace\":\"ns7\"},\"spec\":{"
		"\"storageClassName\":"
		"\"w\",\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}}}");
}

static void check_pods(struct view *view, struct fit_answer *answers)
{
	uint32_t n_runs = bench_quick() ? 5 : 50, n_fit = 0;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		double ms[50];
		char detail[64];

		put_pod(view, "q", 7, cases[i].spec);
		for (uint32_t run = 0; run < n_runs; run++) {
			_cleanup_(fit_free_p) struct fit *fit = NULL;
			struct error err = {0};
			uint64_t began = clock_now_ns();

			if (fit_new(view, pod_from_object(view_find(view, OBJECT_POD, "ns7", "q")),
				    &fit, &err) < 0)
				bench_die("%s", err.msg);
			n_fit = fit_nodes(fit, answers);
			ms[run] = (double)(clock_now_ns() - began) / 1e6;
		}
		snprintf(detail, sizeof(detail), "%u of %u nodes fit, %u pods", n_fit, n_nodes,
			n_pods);
		bench_metric(
			cases[i].name, bench_median(ms, n_runs), "ms", "", n_runs, false, detail);
	}
}

int main(int argc, char **argv)
{
	_cleanup_(view_free_p) struct view *view = NULL;
	_cleanup_free_ struct fit_answer *answers = NULL;
	struct error err = {0};
	uint64_t began;
	size_t before;

	bench_init("fit", argc, argv);
	answers = calloc(n_nodes, sizeof(*answers));
	if (!answers || view_new(30, &view, &err) < 0)
		bench_die("out of memory");
	before = mallinfo2().uordblks;
	began = clock_now_ns();
	put_nodes(view);
	put_pods(view);
	bench_metric("fit.build_s", (double)(clock_now_ns() - began) / 1e9, "s", "", 1, false,
		"decoding the JSON included");
	bench_metric("fit.view_mib", (double)(mallinfo2().uordblks - before) / (1 << 20), "MiB", "",
		1, false, "5,000 nodes, 30,000 pods");
	put_storage(view);
	check_pods(view, answers);
	return bench_done();
}
