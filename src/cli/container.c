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
	r = r < 0 ? r : add(a, "--env");
	r = r < 0 ? r : add(a, "DIVVY_SOCKET=" CONTAINER_RUNTIME "/%s", plan->socket_name);
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

/* Moves over the engine's name and the verb, which is "run" when there is none. */
static const char *take_verb(const char *engine, char *const **given)
{
	if (**given && !strcmp(**given, engine))
		++*given;
	if (**given && (!strcmp(**given, "run") || !strcmp(**given, "create")))
		return *(*given)++;
	return "run";
}

int container_check(const char *engine, char *const *given, struct error *err)
{
	static const char *const other[] = {"attach", "build", "compose", "exec", "images",
		"inspect", "logs", "ps", "pull", "restart", "rm", "start", "stop"};
	char *const *first = given + (given[0] && !strcmp(given[0], engine));
	const char *verb = take_verb(engine, &given);

	if (!given[0])
		return fail(err, EINVAL, "%s %s: an image is missing", engine, verb);
	if (given > first)
		return 0; /* what is behind a verb may be an image of that name */
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		if (!strcmp(given[0], other[i]))
			return fail(err, EINVAL,
				"%s %s: only 'run' and 'create' make a container that can be a "
				"tenant",
				engine, given[0]);
	return 0;
}

int container_rewrite(const struct container_plan *plan, char *const *given,
	struct container_args *ret, struct error *err)
{
	struct container_args a = {0};
	const char *verb;
	int r = container_check(plan->engine, given, err);

	if (r < 0)
		return r;
	verb = take_verb(plan->engine, &given);
	r = add(&a, "%s", plan->engine);
	r = r < 0 ? r : add(&a, "%s", verb);
	r = r < 0 ? r : add_ours(&a, plan, given);
	for (; r >= 0 && *given; given++)
		r = add(&a, "%s", *given);
	if (r < 0) {
		container_args_done(&a);
		return fail(
			err, E2BIG, "%s: more than %d arguments", plan->engine, CONTAINER_ARGS_MAX);
	}
	*ret = a;
	return 0;
}

/* Options of `run` that take no value, of all engines; any other has the next word as its value. */
static bool is_flag(const char *option)
{
	static const char *const flag[] = {"--disable-content-trust", "--env-host", "--help",
		"--http-proxy", "--init", "--interactive", "--no-healthcheck", "--no-hostname",
		"--no-hosts", "--oom-kill-disable", "--passwd", "--privileged", "--publish-all",
		"--quiet", "--read-only", "--read-only-tmpfs", "--replace", "--rm", "--rmi",
		"--rootfs", "--sig-proxy", "--tls-verify", "--tty", "--unsetenv-all",
		"--use-api-socket"};

	for (size_t i = 0; i < ARRAY_SIZE(flag); i++)
		if (!strcmp(flag[i], option))
			return true;
	return false;
}

/* "-it", "-itd", "-p80:80", "-p": is a d among the flags, and is the next word a value? */
static bool has_letter_d(const char *word, bool *ret_takes_next)
{
	bool has_d = false;

	*ret_takes_next = false;
	for (const char *p = word + 1; *p; p++) {
		if (*p == 'd') {
			has_d = p[1] != '=' || !strcmp(p + 1, "=true");
			if (p[1] == '=')
				break;
		} else if (!strchr("itPq", *p)) {
			*ret_takes_next = !p[1];
			break;
		}
	}
	return has_d;
}

/* Moves over the options, up to the image, and says whether -d is among them. */
static bool skip_options(char *const **given)
{
	bool is_detached = false, takes_next;

	for (; **given && (**given)[0] == '-' && (**given)[1]; ++*given) {
		const char *option = **given;

		if (!strcmp(option, "--detach") || !strcmp(option, "--detach=true")) {
			is_detached = true;
			continue;
		}
		if (option[1] == '-')
			takes_next = !strchr(option, '=') && !is_flag(option);
		else
			is_detached = has_letter_d(option, &takes_next) || is_detached;
		if (takes_next && (*given)[1])
			++*given;
	}
	return is_detached;
}

bool container_outlives(const char *engine, char *const *given)
{
	return !strcmp(take_verb(engine, &given), "create") || skip_options(&given);
}

const char *container_image(const char *engine, char *const *given)
{
	take_verb(engine, &given);
	skip_options(&given);
	return *given;
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
