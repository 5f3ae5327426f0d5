/* SPDX-License-Identifier: Apache-2.0 */
/* The program divvy-scheduler; service.c does all its work. */
#include "scheduler/service.h"

static void scheduler_main_on_signal(void *service, bool is_reload)
{
	service_leave(service);
}

static int scheduler_main_run(void *options, struct program_signals *signals, struct error *err)
{
	_cleanup_loop_ struct loop *loop = NULL;
	struct service *service = NULL;
	int r = loop_new(&loop);

	if (r < 0)
		return fail_errno(err, -r, "event loop");
	r = service_new(loop, options, &service, err);
	if (r < 0)
		return r;
	r = program_watch(signals, loop, scheduler_main_on_signal, service);
	if (r >= 0)
		r = loop_run(loop);
	if (r < 0)
		fail_errno(err, -r, "event loop");
	program_unwatch(signals);
	service_free(service);
	return r;
}

PROGRAM_HOLDS_SIGNALS;

int main(int argc, char **argv)
{
	struct options options = {0};

	return program_main(&options_program, scheduler_main_run, &options, argc, argv);
}
