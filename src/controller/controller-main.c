/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program divvy-controller: names this instance for the Lease and runs the controller
 * (controller.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rand.h"
#include "controller/controller-options.h"
#include "controller/controller-placeholder.h"

/* Makes a name that is unique among all candidates for the Lease. */
static const char *controller_main_identity(char *ret, size_t size)
{
	char host[128] = "host";
	uint64_t random = 0;

	gethostname(host, sizeof(host) - 1);
	random_bytes(&random, sizeof(random));
	snprintf(ret, size, "%s_%016llx", host, (unsigned long long)random);
	return ret;
}

static void controller_main_on_signal(void *data, bool is_reload)
{
	const struct controller *c = data;

	loop_stop(c->loop, 0);
}

static int controller_main_run(void *data, struct program_signals *signals, struct error *err)
{
	struct controller_options *options = data;
	struct controller *c = NULL;
	char who[192];
	int r;

	options->pod_name = getenv("POD_NAME");
	if (!options->pod_name || !options->pod_name[0])
		options->pod_name = controller_main_identity(who, sizeof(who));
	if (options->is_placeholder)
		return placeholder_run(options, signals, err);
	r = controller_new(options, &c, err);
	if (r < 0)
		return r;
	r = program_watch(signals, c->loop, controller_main_on_signal, c);
	if (r >= 0) {
		log_info("serving on ports %u and %u", http_server_port(c->webhook),
			http_server_port(page_server(c->page)));
		r = controller_run(c);
	}
	if (r < 0)
		fail_errno(err, -r, "event loop");
	program_unwatch(signals);
	controller_stop(c);
	controller_free(c);
	return r;
}

PROGRAM_HOLDS_SIGNALS;

int main(int argc, char **argv)
{
	struct controller_options options = {0};

	return program_main(&options_program, controller_main_run, &options, argc, argv);
}
