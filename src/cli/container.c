/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file writes the new command line in one order: engine, its own options, verb, divvy's
 * options, the user's words. The parser has lists of the options of docker, podman and nerdctl that
 * take no value. Every other option takes the next word as its value, unless it has a '=' or its
 * value follows its letter. The first word behind the options is the image. The rewrite changes
 * only the options that set LD_PRELOAD, and copies all other words behind the verb as they are. The
 * functions never change `given`, and on failure the result stays untouched.
 */
#include "cli/container.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define PRELOAD_MAX (128u << 10) /* the kernel's limit for one argument, MAX_ARG_STRLEN */

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

static int container_add_arg(struct container_args *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* -E2BIG: the list is full, or memory is short. */
static int container_add_arg(struct container_args *a, const char *fmt, ...)
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
	int r = container_add_arg(a, "--mount");

	return r < 0 ? r
		     : container_add_arg(a, "type=bind,source=%s,target=%s%s", from, to,
			       read_only ? ",readonly" : "");
}

static int add_env(struct container_args *a, const char *text)
{
	int r = container_add_arg(a, "--env");

	return r < 0 ? r : container_add_arg(a, "%s", text);
}

static int container_add_devices(struct container_args *a, const struct container_plan *plan)
{
	_cleanup_buf_ struct buf list = BUF_INIT(4096);
	int r = 0;

	if (plan->has_cdi || !strcmp(plan->engine, "podman")) {
		for (size_t i = 0; r == 0 && i < plan->n_uuids; i++) {
			r = container_add_arg(a, "--device");
			r = r < 0 ? r : container_add_arg(a, "nvidia.com/gpu=%s", plan->uuid[i]);
		}
		return r;
	}
	for (size_t i = 0; i < plan->n_uuids; i++)
		buf_addf(&list, "%s%s", i ? "," : "", plan->uuid[i]);
	r = container_add_arg(a, "--gpus");
	/* The engine reads the option's value as CSV, which needs the inner quotes. */
	return r < 0 ? r
		     : container_add_arg(a, plan->n_uuids > 1 ? "\"device=%s\"" : "device=%s",
			       buf_text(&list));
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Sets LD_PRELOAD to divvy's libraries and the user's. */
static int add_preload(
	struct container_args *a, const struct container_plan *plan, const char *users)
{
	_cleanup_buf_ struct buf text = BUF_INIT(PRELOAD_MAX);

	buf_addf(&text, "LD_PRELOAD=%s/libdivvy-cuda.so:%s/libdivvy-nvml.so", CONTAINER_HOOKS,
		CONTAINER_HOOKS);
	for (size_t i = 0; i < plan->n_runtimes; i++)
		buf_addf(&text, ":%s/%s", CONTAINER_HOOKS, base_name(plan->runtime[i]));
	if (users[0])
		buf_addf(&text, ":%s", users);
	return buf_error(&text) < 0 ? -E2BIG : add_env(a, buf_text(&text));
}

static int add_simulated(struct container_args *a, const struct container_plan *plan)
{
	int r = add_mount(a, plan->sim_folder, CONTAINER_RUNTIME "-sim", true);

	for (size_t i = 0; r >= 0 && i < plan->n_runtimes; i++) {
		char target[256];

		snprintf(target, sizeof(target), "%s/%s", CONTAINER_HOOKS,
			base_name(plan->runtime[i]));
		r = add_mount(a, plan->runtime[i], target, true);
	}
	r = r < 0 ? r : add_mount(a, plan->driver_folder, CONTAINER_HOOKS "/driver", true);
	r = r < 0 ? r : add_env(a, "DIVVY_SIM=" CONTAINER_RUNTIME "-sim");
	return r < 0 ? r : add_env(a, "DIVVY_DRIVER=" CONTAINER_HOOKS "/driver");
}

static int add_ours(
	struct container_args *a, const struct container_plan *plan, bool has_user_devices)
{
	int r = add_mount(a, plan->programs_folder, CONTAINER_RUNTIME, true);

	r = r < 0 ? r : add_mount(a, plan->hook_cuda, CONTAINER_HOOKS "/libdivvy-cuda.so", true);
	r = r < 0 ? r : add_mount(a, plan->hook_nvml, CONTAINER_HOOKS "/libdivvy-nvml.so", true);
	r = r < 0 ? r : add_env(a, "DIVVY_TENANT");
	r = r < 0 ? r : add_env(a, "DIVVY_SOCKET=" CONTAINER_RUNTIME "/divvyd.sock");
	r = r < 0 ? r : add_env(a, "DIVVY_ABSENT=closed");
	r = r < 0 ? r : add_preload(a, plan, "");
	if (r < 0)
		return r;
	if (plan->sim_folder)
		return add_simulated(a, plan);
	return has_user_devices ? 0 : container_add_devices(a, plan);
}

/* ---- parsing the given command line ---- */

static bool is_in(const char *option, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i], option))
			return true;
	return false;
}

/*
 * Options before the verb that take no value, of all engines. Every other option takes the next
 * word.
 */
static bool is_global_flag(const char *option)
{
	static const char *const flag[] = {"--debug", "--debug-full", "--experimental", "--help",
		"--insecure-registry", "--kube-hide-dupe", "--noout", "--remote", "--syslog",
		"--tls", "--tlsverify", "--transient-store", "--version", "-D", "-h", "-r", "-v"};

	return is_in(option, flag, ARRAY_SIZE(flag));
}

/* The words before the container's options. */
struct opening {
	char *const *global; /* the engine's own options */
	size_t n_global;
	char *const *verb; /* NULL: no verb that creates a container */
	char *const *rest; /* the container's options, or the word that is no known verb */
};

static struct opening opening_of(const char *engine, char *const *given)
{
	struct opening o = {0};

	given += given[0] && !strcmp(given[0], engine);
	o.global = given;
	for (; *given && **given == '-'; given++)
		if (!strchr(*given, '=') && !is_global_flag(*given) && given[1] &&
			((*given)[1] == '-' || !(*given)[1] || !(*given)[2]))
			given++;
	o.n_global = (size_t)(given - o.global);
	o.rest = given;
	given += given[0] && !strcmp(given[0], "container");
	if (!given[0] || (strcmp(given[0], "run") != 0 && strcmp(given[0], "create") != 0))
		return o;
	o.verb = given;
	o.rest = given + 1;
	return o;
}

int container_check(const char *engine, char *const *given, struct error *err)
{
	const struct opening o = opening_of(engine, given);

	if (!o.verb)
		return fail(err, EINVAL,
			"%s %s: expected 'run' or 'create', which create a container; write "
			"divvy run --container %s -- run IMAGE",
			engine, o.rest[0] ? o.rest[0] : "without a command", engine);
	if (!o.rest[0])
		return fail(err, EINVAL, "%s %s: the image is missing", engine, *o.verb);
	return 0;
}

/* Options of `run` that take no value, of all engines. Every other option takes the next word. */
static bool is_flag(const char *option)
{
	static const char *const flag[] = {"--detach", "--disable-content-trust", "--env-host",
		"--help", "--http-proxy", "--init", "--interactive", "--no-healthcheck",
		"--no-hostname", "--no-hosts", "--oom-kill-disable", "--passwd", "--privileged",
		"--publish-all", "--quiet", "--read-only", "--read-only-tmpfs", "--replace", "--rm",
		"--rmi", "--rootfs", "--sig-proxy", "--tls-verify", "--tty", "--unsetenv-all",
		"--use-api-socket"};

	return is_in(option, flag, ARRAY_SIZE(flag));
}

/*
 * Reads a word of short options ("-it", "-itd", "-p80:80", "-p"). Returns whether d is among them,
 * and whether the next word is a value.
 */
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

/*
 * Returns the number of words of the option at `given` with its value: 1 or 2, or 0 for the image.
 */
static size_t option_words(char *const *given, bool *ret_is_detach)
{
	const char *option = given[0];
	bool takes_next;

	*ret_is_detach = false;
	if (!option || option[0] != '-' || !option[1])
		return 0;
	if (option[1] == '-') {
		*ret_is_detach = !strcmp(option, "--detach") || !strcmp(option, "--detach=true");
		takes_next = !strchr(option, '=') && !is_flag(option);
	} else {
		*ret_is_detach = has_letter_d(option, &takes_next);
	}
	return takes_next && given[1] ? 2 : 1;
}

/*
 * Returns whether an option before the image chooses devices. Words behind the image are the
 * program's own.
 */
static bool names_devices(char *const *given)
{
	bool is_detach;
	size_t n;

	for (; (n = option_words(given, &is_detach)); given += n)
		if (!strncmp(*given, "--gpus", 6) || !strncmp(*given, "--device=nvidia", 15) ||
			(n > 1 && !strcmp(*given, "--device") && !strncmp(given[1], "nvidia", 6)))
			return true;
	return false;
}

/* Skips the options up to the image. Returns whether -d is among them. */
static bool skip_options(char *const **given)
{
	bool is_detached = false, is_detach;
	size_t n;

	while ((n = option_words(*given, &is_detach))) {
		is_detached |= is_detach;
		*given += n;
	}
	return is_detached;
}

bool container_outlives(const char *engine, char *const *given)
{
	struct opening o = opening_of(engine, given);

	return (o.verb && !strcmp(*o.verb, "create")) || skip_options(&o.rest);
}

const char *container_image(const char *engine, char *const *given)
{
	struct opening o = opening_of(engine, given);

	skip_options(&o.rest);
	return *o.rest;
}

/*
 * Returns the variable that the option sets in the container: "NAME=VALUE", "NAME" alone, or NULL.
 */
static const char *env_of(char *const *given)
{
	const char *p = given[0];

	if (p[1] == '-') {
		if (!strcmp(p, "--env"))
			return given[1];
		return strncmp(p, "--env=", 6) != 0 ? NULL : p + 6;
	}
	p += 1 + strspn(p + 1, "ditPq");
	if (*p != 'e')
		return NULL;
	if (!p[1])
		return given[1];
	return p + (p[1] == '=' ? 2 : 1);
}

/* The user's own LD_PRELOAD follows divvy's libraries in the list and does not replace them. */
static int container_add_option(struct container_args *a, const struct container_plan *plan,
	char *const *given, size_t n, struct error *err)
{
	static const char name[] = "LD_PRELOAD";
	const char *env = env_of(given);
	const size_t at = sizeof(name) - 1, n_flags = strspn(given[0] + 1, "ditPq");
	int r = 0;

	if (env && (strncmp(env, name, at) != 0 || (env[at] && env[at] != '=')))
		env = NULL;
	if (env && !env[at])
		return fail(err, EINVAL,
			"--env %s has no value; write --env %s=FILE, and divvy adds FILE after "
			"its own libraries",
			name, name);
	if (!env) {
		for (size_t i = 0; r == 0 && i < n; i++)
			r = container_add_arg(a, "%s", given[i]);
		return r;
	}
	if (n_flags) /* keeps the flags before the e of a word such as "-ite" */
		r = container_add_arg(a, "%.*s", (int)n_flags + 1, given[0]);
	return r < 0 ? r : add_preload(a, plan, env + at + 1);
}

static int container_add_user_options(struct container_args *a, const struct container_plan *plan,
	char *const *given, struct error *err)
{
	bool is_detach;
	size_t n;
	int r = 0;

	for (; r == 0 && (n = option_words(given, &is_detach)); given += n)
		r = container_add_option(a, plan, given, n, err);
	for (; r == 0 && *given; given++)
		r = container_add_arg(a, "%s", *given);
	return r;
}

/* Engines read --mount as CSV and treat quotes differently, so paths must contain none. */
static int check_mounts(const struct container_plan *plan, struct error *err)
{
	const char *const source[] = {plan->programs_folder, plan->hook_cuda, plan->hook_nvml,
		plan->sim_folder, plan->driver_folder, plan->runtime[0], plan->runtime[1]};

	for (size_t i = 0; i < ARRAY_SIZE(source); i++) {
		const char *cut = source[i] ? strpbrk(source[i], ",\"\n") : NULL;

		if (cut)
			return fail(err, EINVAL,
				"'%s' has a %s, which %s does not accept in --mount; use a "
				"folder without it",
				source[i],
				*cut == ','           ? "comma"
					: *cut == '"' ? "quote"
						      : "line break",
				plan->engine);
	}
	return 0;
}

int container_rewrite(const struct container_plan *plan, char *const *given,
	struct container_args *ret, struct error *err)
{
	const struct opening o = opening_of(plan->engine, given);
	struct container_args a = {0};
	int r = container_check(plan->engine, given, err);

	r = r < 0 ? r : check_mounts(plan, err);
	if (r < 0)
		return r;
	r = container_add_arg(&a, "%s", plan->engine);
	for (size_t i = 0; r == 0 && i < o.n_global; i++)
		r = container_add_arg(&a, "%s", o.global[i]);
	r = r < 0 ? r : container_add_arg(&a, "%s", *o.verb);
	/* The user's own choice of devices takes precedence. */
	r = r < 0 ? r : add_ours(&a, plan, names_devices(o.rest));
	r = r < 0 ? r : container_add_user_options(&a, plan, o.rest, err);
	if (r == -E2BIG)
		fail(err, E2BIG, "%s: the command has more than %d arguments", plan->engine,
			CONTAINER_ARGS_MAX);
	if (r < 0) {
		container_args_done(&a);
		return r;
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
