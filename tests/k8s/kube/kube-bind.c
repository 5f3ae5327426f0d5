/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only binds pods, with up to AT-A-TIME requests at once: no scheduler can bind faster.
 * usage: kube-bind NAMESPACE AT-A-TIME NODES < names of pods
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "kube/write.h"

#define NAME_MAX_BYTES 256u

static struct loop *loop;
static struct kube_client *client;
static json_t *annotations;
static const char *space;
static uint32_t n_nodes, n_open, n_started, n_failed;
static bool is_over;

static void fill(uint32_t at_a_time);
static uint32_t at_a_time_most;

static void on_done(void *data, const struct kube_answer *answer)
{
	n_open--;
	if (answer->result < 0) {
		fprintf(stderr, "%s\n", answer->error.msg);
		n_failed++;
	}
	fill(at_a_time_most);
	if (!n_open && is_over)
		loop_stop(loop, 0);
}

static void bind_one(const char *name)
{
	const struct kube_write write = {
		.target = {.namespace_name = space, .name = name}, .done = on_done};
	char node[32];

	snprintf(node, sizeof(node), "n%" PRIu32, n_started++ % n_nodes);
	if (kube_bind(client, &write, node, NULL, annotations, NULL) < 0)
		exit(1);
	n_open++;
}

static void fill(uint32_t at_a_time)
{
	char line[NAME_MAX_BYTES];

	while (n_open < at_a_time && !is_over) {
		if (!fgets(line, sizeof(line), stdin)) {
			is_over = true;
			return;
		}
		line[strcspn(line, "\n")] = '\0';
		bind_one(line);
	}
}

int main(int argc, char **argv)
{
	const struct kube_client_options options = {.max_in_flight = 128};
	struct kube_config *config = NULL;
	struct error err;

	if (argc != 4)
		return 2;
	space = argv[1];
	at_a_time_most = (uint32_t)strtoul(argv[2], NULL, 10);
	n_nodes = (uint32_t)strtoul(argv[3], NULL, 10);
	/* The annotations are as long as those of divvy-scheduler. */
	annotations = json_pack("{ss, ss, ss, ss, ss, ss, ss, ss, ss}", "divvy.gpu/devices",
		"main=GPU-n10-3", "divvy.gpu/granted-request", "main=0.1",
		"divvy.gpu/granted-limit", "main=1", "divvy.gpu/granted-memory", "main=1717986918",
		"divvy.gpu/granted-memory-policy", "main=fail", "divvy.gpu/granted-class",
		"main=standard", "divvy.gpu/granted-priority", "main=50", "divvy.gpu/granted-mode",
		"main=local", "divvy.gpu/epoch", "0");
	if (loop_new(&loop) < 0 || kube_config_load(NULL, &config, &err) < 0 ||
		kube_client_new(loop, config, &options, &client, &err) < 0) {
		fprintf(stderr, "no client\n");
		return 1;
	}
	fill(at_a_time_most);
	loop_run(loop);
	kube_client_free(client);
	kube_config_free(config);
	loop_free(loop);
	json_decref(annotations);
	return n_failed != 0;
}
