/* SPDX-License-Identifier: Apache-2.0 */
/* divvy-controller: signals and exit status. Everything else is controller.h's. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/process.h"
#include "base/rand.h"
#include "controller/options.h"
#include "controller/placeholder.h"

struct signals {
	struct controller *controller;
	struct loop_io io;
	int fd;
};

static void on_signal(struct loop_io *io, uint32_t events)
{
	struct signals *s = io->data;
	struct signalfd_siginfo info;

	if (read(s->fd, &info, sizeof(info)) != sizeof(info))
		return;
	log_info("signal %u: ending", info.ssi_signo);
	loop_stop(s->controller->loop, 0);
}

static int serve(const struct controller_options *options, struct error *err)
{
	struct signals signals = {.fd = -1};
	struct controller *controller = NULL;
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	signals.fd = signal_fd_new(&set);
	if (signals.fd < 0)
		return fail_errno(err, -signals.fd, "signals");
	r = controller_new(options, &controller, err);
	if (r >= 0) {
		signals.controller = controller;
		signals.io.data = &signals;
		r = loop_add_io(controller->loop, &signals.io, signals.fd, EPOLLIN, on_signal);
		if (r >= 0) {
			log_info("serving on ports %u and %u",
				http_server_port(controller->webhook),
				http_server_port(controller->page));
			r = controller_run(controller);
		}
		if (r < 0)
			fail_errno(err, -r, "event loop");
		loop_remove_io(&signals.io);
		controller_stop(controller);
		controller_free(controller);
	}
	fd_close(signals.fd);
	return r;
}

/* Unique among all that ask for the Lease. */
static const char *identity(char *ret, size_t size)
{
	char host[128] = "host";
	uint64_t random = 0;

	gethostname(host, sizeof(host) - 1);
	random_bytes(&random, sizeof(random));
	snprintf(ret, size, "%s_%016llx", host, (unsigned long long)random);
	return ret;
}

int main(int argc, char **argv)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct options s;
	struct error err = {0};
	char who[192];
	int r;

	log_init("divvy-controller");
	/* For the build: makes docs/man. */
	if (argc == 3 && !strcmp(argv[1], "--dump-man")) {
		r = options_dump_man(argv[2], &err);
		if (r < 0)
			log_error("%s", err.msg);
		return r < 0;
	}
	r = options_parse(argc, argv, &s, &err);
	if (r < 0) {
		log_error("%s", err.msg);
		return 2;
	}
	if (!s.is_done) {
		sigaction(SIGPIPE, &ignore, NULL);
		if (!s.controller.pod_name)
			s.controller.pod_name = identity(who, sizeof(who));
		r = s.is_placeholder ? placeholder_run(&s.controller, &err)
				     : serve(&s.controller, &err);
	}
	if (r < 0) {
		log_error("%s", err.msg);
		return 1;
	}
	return 0;
}
