/* SPDX-License-Identifier: Apache-2.0 */
/* divvy-scheduler: signals and exit status. Everything else is the service's. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/process.h"
#include "scheduler/service.h"

struct signals {
	struct loop_io io;
	struct service *service;
	int fd;
};

static void on_signal(struct loop_io *io, uint32_t events)
{
	struct signals *s = io->data;
	struct signalfd_siginfo info;

	while (read(s->fd, &info, sizeof(info)) == sizeof(info)) {
		log_info("signal %u: ending", info.ssi_signo);
		service_leave(s->service);
	}
}

static int serve(const struct options *options, struct error *err)
{
	_cleanup_loop_ struct loop *loop = NULL;
	struct signals signals = {.fd = -1};
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	signals.fd = signal_fd_new(&set);
	if (signals.fd < 0)
		return fail_errno(err, -signals.fd, "signals");
	r = loop_new(&loop);
	if (r < 0)
		return fail_errno(err, -r, "event loop");
	r = service_new(loop, options, &signals.service, err);
	if (r < 0)
		return r;
	signals.io.data = &signals;
	r = loop_add_io(loop, &signals.io, signals.fd, EPOLLIN, on_signal);
	if (r >= 0)
		r = loop_run(loop);
	if (r < 0)
		fail_errno(err, -r, "event loop");
	loop_remove_io(&signals.io);
	service_free(signals.service);
	fd_close(signals.fd);
	return r;
}

int main(int argc, char **argv)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct options options;
	struct error err = {0};
	int r;

	log_init("divvy-scheduler");
	/* For the build: makes docs/man. */
	if (argc == 3 && !strcmp(argv[1], "--dump-man")) {
		r = man_dump(argv[2], &err);
		if (r < 0)
			log_error("%s", err.msg);
		return r < 0;
	}
	r = options_parse(argc, argv, &options, &err);
	if (r < 0) {
		log_error("%s", err.msg);
		return 2;
	}
	if (options.is_done)
		return 0;
	sigaction(SIGPIPE, &ignore, NULL);
	r = serve(&options, &err);
	if (r < 0)
		log_error("%s", err.msg);
	return r < 0;
}
