/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/container.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

static void closedir_p(DIR **d)
{
	if (*d)
		closedir(*d);
}

void container_args_done(struct container_args *args)
{
	for (size_t i = 0; i < args->n; i++)
		free(args->argv[i]);
	args->n = 0;
}

static int add(struct container_args *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A failed one leaves n at the maximum, which container_rewrite reports. */
static int add(struct container_args *a, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int r = -1;

	if (a->n < CONTAINER_ARGS_MAX) {
		va_start(ap, fmt);
		r = vasprintf(&text, fmt, ap);
		va_end(ap);
	}
	if (r < 0)
		return -E2BIG;
	a->argv[a->n++] = text;
	a->argv[a->n] = NULL;
	return 0;
}

static int add_mount(struct container_args *a, const char *from, const char *to, bool read_only)
{
	int r = add(a, "--mount");

	return r < 0
		? r
		: add(a, "type=bind,source=%s,target=%s%s", from, to, read_only ? ",readonly" : "");
}

static int add_env(struct container_args *a, const char *text)
{
	int r = add(a, "--env");

	return r < 0 ? r : add(a, "%s", text);
}

/* The user's own choice of devices wins. */
static bool names_devices(char *const *given)
{
	for (; *given; given++)
		if (!strncmp(*given, "--gpus", 6) || !strncmp(*given, "nvidia.com/gpu", 14) ||
			!strncmp(*given, "--device=nvidia", 15))
			return true;
	return false;
}

static int add_devices(struct container_args *a, const struct container_plan *plan)
{
	_cleanup_buf_ struct buf list = BUF_INIT(4096);
	int r = 0;

	if (plan->has_cdi || !strcmp(plan->engine, "podman")) {
		for (size_t i = 0; r == 0 && i < plan->n_uuids; i++) {
			r = add(a, "--device");
			r = r < 0 ? r : add(a, "nvidia.com/gpu=%s", plan->uuid[i]);
		}
		return r;
	}
	for (size_t i = 0; i < plan->n_uuids; i++)
		buf_addf(&list, "%s%s", i ? "," : "", plan->uuid[i]);
	r = add(a, "--gpus");
	/* The inner quotes are the engine's: its option is read as CSV. */
	return r < 0 ? r
		     : add(a, plan->n_uuids > 1 ? "\"device=%s\"" : "device=%s", buf_text(&list));
}

static int add_simulated(struct container_args *a, const struct container_plan *plan)
{
	int r = add_mount(a, plan->sim_folder, CONTAINER_RUNTIME "-sim", false);

	r = r < 0 ? r : add_mount(a, plan->driver_folder, CONTAINER_HOOKS "/driver", true);
	r = r < 0 ? r : add_env(a, "DIVVY_SIM=" CONTAINER_RUNTIME "-sim");
	return r < 0 ? r : add_env(a, "DIVVY_DRIVER=" CONTAINER_HOOKS "/driver");
}

static int add_ours(struct container_args *a, const struct container_plan *plan, char *const *given)
{
	int r = add_mount(a, plan->runtime_folder, CONTAINER_RUNTIME, true);

	r = r < 0 ? r : add_mount(a, plan->hook_cuda, CONTAINER_HOOKS "/libdivvy-cuda.so", true);
	r = r < 0 ? r : add_mount(a, plan->hook_nvml, CONTAINER_HOOKS "/libdivvy-nvml.so", true);
	r = r < 0 ? r : add_env(a, "DIVVY_TENANT");
	r = r < 0 ? r : add_env(a, "DIVVY_SOCKET=" CONTAINER_RUNTIME "/divvyd.sock");
	r = r < 0 ? r : add_env(a, "DIVVY_ABSENT=closed");
	r = r < 0 ? r
		  : add_env(a,
			    "LD_PRELOAD=" CONTAINER_HOOKS "/libdivvy-cuda.so:" CONTAINER_HOOKS
			    "/libdivvy-nvml.so");
	if (r < 0)
		return r;
	if (plan->sim_folder)
		return add_simulated(a, plan);
	return names_devices(given) ? 0 : add_devices(a, plan);
}

int container_rewrite(const struct container_plan *plan, char *const *given,
	struct container_args *ret, struct error *err)
{
	struct container_args a = {0};
	const char *verb = "run";
	int r;

	if (given[0] && !strcmp(given[0], plan->engine))
		given++;
	if (given[0] && (!strcmp(given[0], "run") || !strcmp(given[0], "create")))
		verb = *given++;
	else if (given[0] &&
		(!strcmp(given[0], "exec") || !strcmp(given[0], "start") ||
			!strcmp(given[0], "compose")))
		return fail(err, EINVAL,
			"%s %s: only 'run' and 'create' make a container that can be a tenant",
			plan->engine, given[0]);
	if (!given[0])
		return fail(err, EINVAL, "%s %s: an image is missing", plan->engine, verb);
	r = add(&a, "%s", plan->engine);
	r = r < 0 ? r : add(&a, "%s", verb);
	r = r < 0 ? r : add_ours(&a, plan, given);
	for (bool options = true; r >= 0 && *given; given++) {
		options = options && (*given)[0] == '-';
		if (options && (!strcmp(*given, "-d") || !strcmp(*given, "--detach")))
			a.is_detached = true;
		r = add(&a, "%s", *given);
	}
	a.is_detached = a.is_detached || !strcmp(verb, "create");
	if (r < 0) {
		container_args_done(&a);
		return fail(
			err, E2BIG, "%s: more than %d arguments", plan->engine, CONTAINER_ARGS_MAX);
	}
	*ret = a;
	return 0;
}

bool container_has_cdi(void)
{
	static const char *const folder[] = {"/etc/cdi", "/var/run/cdi"};

	for (size_t i = 0; i < ARRAY_SIZE(folder); i++) {
		_cleanup_(closedir_p) DIR *d = opendir(folder[i]);

		for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
			if (strstr(e->d_name, "nvidia"))
				return true;
	}
	return false;
}

void container_format(char *const *argv, struct buf *out)
{
	static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "-_./:=,@%+";

	for (size_t i = 0; argv[i]; i++) {
		if (i)
			buf_add_byte(out, ' ');
		if (argv[i][0] && argv[i][strspn(argv[i], bare)] == '\0') {
			buf_add_text(out, argv[i]);
			continue;
		}
		buf_add_byte(out, '\'');
		for (const char *p = argv[i]; *p; p++) {
			if (*p == '\'')
				buf_add_text(out, "'\\''");
			else
				buf_add_byte(out, *p);
		}
		buf_add_byte(out, '\'');
	}
	buf_add_byte(out, '\n');
}
