/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy run` creates a tenant and then replaces itself with the tenant's program. The program has
 * the same pid and no process in between, so signals, terminal and exit code are its own. The
 * tenant lives as long as this pid, or any process of the tenant that uses a device.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/format.h"
#include "base/parse.h"
#include "cli/cli-text.h"
#include "cli/cli-commands.h"
#include "cli/container.h"
#include "cmdline/output.h"
#include "cli/cli-path.h"
#include "cli/cli-remote.h"
#include "cli/cli-start.h"
#include "cli/cuda-program.h"
#include "cli/spec-options.h"

static const char *called = "divvy run";

static const struct option_row options[] = {
	SPEC_OPTIONS_LIVE,
	SPEC_OPTIONS_PLACE,
	{"name", "NAME",
		"name of the tenant in other commands (default: the name of the program or image)"},
	{"wait", "TIME", TEXT_RUN_WAIT, .letter = 'w', .is_maybe = true},
	{"simulate", "SPEC", TEXT_RUN_SIMULATE},
	{"container", "ENGINE", TEXT_RUN_CONTAINER, .choices = "docker podman nerdctl"},
	{"remote", "PLACE", TEXT_RUN_REMOTE},
	{"invitation", "FILE", TEXT_RUN_INVITATION},
	{"dry-run", NULL, "print the command and environment, and run nothing"},
	{"quiet", NULL, "print no line about simulated devices, waiting or preferences",
		.letter = 'q'},
	CLI_SOCKET_OPTION,
	{0},
};

/* Makes a valid tenant name from the name of the program or image. */
static void name_from_program(const char *program, char ret_name[static SPEC_NAME])
{
	const char *slash = program ? strrchr(program, '/') : NULL;
	size_t n = 0;

	for (const char *p = slash ? slash + 1 : program; p && *p && n < SPEC_NAME - 1; p++) {
		const bool fine = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
			(*p >= '0' && *p <= '9') || strchr("._-", *p);

		ret_name[n++] = fine ? *p : '-';
	}
	if (!n)
		ret_name[n++] = 'x';
	ret_name[n] = '\0';
}

static json_t *make_request(const struct cli_args *args, int64_t wait_ms, bool outlives)
{
	char name[SPEC_NAME];
	const char *given = cli_get(args, "name"), *engine = cli_get(args, "container");
	json_t *request;

	name_from_program(engine ? container_image(engine, args->operand) : args->operand[0], name);
	request = json_pack("{s:s, s:o, s:s, s:i, s:s, s:I}", "cmd", "create", "spec",
		spec_options_json(args), "name", given ? given : name, "pid", (int)getpid(),
		"lifetime", outlives ? "processes" : "process", "wait_ms", (json_int_t)wait_ms);
	/* The tenant of a dry run ends with this process, so it needs no container's lifetime. */
	if (engine && !cli_has(args, "dry-run"))
		json_object_set_new(request, "container", json_true());
	return request;
}

/* On a terminal one line overwrites itself; elsewhere a line appears every 10 s. */
static void show_waiting(
	const struct cli_args *args, const char *reason, uint64_t since_ns, bool is_tty)
{
	static uint64_t said_ns;
	const uint64_t now = clock_now_ns(),
		       passed_ns = (now - since_ns) / NSEC_PER_SEC * NSEC_PER_SEC;

	if (cli_has(args, "quiet") || (!is_tty && said_ns && now - said_ns < 10 * NSEC_PER_SEC))
		return;
	fprintf(stderr, "%s%s: waiting%s%s: %s%s", is_tty ? "\r\033[K" : "", called,
		passed_ns ? " for " : "", passed_ns ? format_duration(passed_ns).s : "", reason,
		is_tty ? "" : "\n");
	said_ns = now;
}

static int cmd_run_await_capacity(struct client *c, const struct cli_args *args, json_t *request,
	const char *reason, json_t **ret_answer, struct error *err)
{
	const bool is_tty = isatty(STDERR_FILENO);
	const uint64_t since = clock_now_ns();
	int r = client_send(c, request, err);

	if (r < 0)
		return r;
	do {
		show_waiting(args, reason, since, is_tty);
		r = client_receive(c, 1000, ret_answer, err);
	} while (r == -EAGAIN);
	if (is_tty && !cli_has(args, "quiet"))
		fputs("\r\033[K", stderr);
	if (r == -ETIMEDOUT)
		return fail(err, ETIMEDOUT, "no free capacity within %s: %s", cli_get(args, "wait"),
			reason);
	return r;
}

/*
 * The first request does not wait, so its refusal gives the reason. Only -ENOSPC is worth waiting
 * for.
 */
static int create_tenant(struct client *c, const struct cli_args *args, bool outlives,
	json_t **ret_answer, struct error *err)
{
	uint64_t wait_ns = 0;
	struct error now = {0};
	int r = cli_get_duration(args, "wait", CLOCK_NEVER, &wait_ns, err);

	if (r < 0)
		return r;
	r = client_call(c, make_request(args, 0, outlives), ret_answer, &now);
	if (r == 0)
		return 0;
	if (r != -ENOSPC || !cli_has(args, "wait"))
		return fail(err, -r, "%s", now.msg);
	return cmd_run_await_capacity(c, args,
		make_request(args, wait_ns == CLOCK_NEVER ? -1 : (int64_t)(wait_ns / NSEC_PER_MSEC),
			outlives),
		now.msg, ret_answer, err);
}

struct hooks {
	char cuda[PLACES_PATH], nvml[PLACES_PATH];
	struct cli_path_runtimes runtimes;
};

static int set_environment(const json_t *answer, const struct hooks *hooks, bool preload)
{
	_cleanup_buf_ struct buf text = BUF_INIT(PLACES_PRELOAD),
				 folders = BUF_INIT(PLACES_PRELOAD);
	const char *name;
	json_t *value;

	json_object_foreach(json_object_get(answer, "env"), name, value)
		if (json_is_string(value) && setenv(name, json_string_value(value), 1) < 0)
			return -errno;
	if (!preload)
		return 0;
	/* divvy's runtime never stands before a real driver: NVIDIA's is right there. */
	cli_path_preload(hooks->cuda, hooks->nvml,
		json_bool_or_false(answer, "simulated") ? &hooks->runtimes : NULL, &text);
	if (buf_error(&text) < 0)
		return -E2BIG;
	if (setenv("LD_PRELOAD", buf_text(&text), 1) < 0 || setenv("DIVVY_ABSENT", "closed", 0) < 0)
		return -errno;
	if (!cli_path_library_path(hooks->cuda, &folders))
		return 0;
	if (buf_error(&folders) < 0)
		return -E2BIG;
	return setenv("LD_LIBRARY_PATH", buf_text(&folders), 1) < 0 ? -errno : 0;
}

static int cmd_run_rewrite_command(const struct cli_args *args, const struct client *c,
	const json_t *answer, const struct hooks *hooks, struct container_args *ret,
	struct error *err)
{
	const json_t *env = json_object_get(answer, "env"),
		     *devices = json_object_get(answer, "devices");
	struct container_plan plan = {
		.engine = cli_get(args, "container"),
		.programs_folder = json_string_value(json_object_get(answer, "programs")),
		.hook_cuda = hooks->cuda,
		.hook_nvml = hooks->nvml,
		.sim_folder = json_string_value(json_object_get(env, "DIVVY_SIM")),
		.driver_folder = json_string_value(json_object_get(env, "DIVVY_DRIVER")),
		.has_cdi = container_has_cdi(),
	};

	if (!plan.programs_folder)
		return fail(err, EPROTO,
			"the daemon at '%s' is too old for containers; restart it with this "
			"version of divvyd",
			c->socket);
	if (json_bool_or_false(answer, "simulated"))
		for (; plan.n_runtimes < hooks->runtimes.n; plan.n_runtimes++)
			plan.runtime[plan.n_runtimes] = hooks->runtimes.path[plan.n_runtimes];
	for (size_t i = 0; i < json_array_size(devices) && i < CONTAINER_DEVICES_MAX; i++)
		plan.uuid[plan.n_uuids++] = json_text_or_empty(json_array_get(devices, i), "uuid");
	return container_rewrite(&plan, args->operand, ret, err);
}

static void add_library_path(struct buf *out)
{
	const char *folders = getenv("LD_LIBRARY_PATH");

	if (folders)
		buf_addf(out, "LD_LIBRARY_PATH=%s\n", folders);
}

/* Prints this process's environment, which the program would inherit. */
static int print_plan(
	const struct cli_args *args, const json_t *answer, char *const *argv, struct error *err)
{
	const bool is_container = cli_has(args, "container");
	_cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
	const char *name;
	json_t *value;

	if (cli_has(args, "remote")) {
		/*
		 * The tenant's own variables go to the local server's worker. The program gets only
		 * these three.
		 */
		buf_addf(&out, "DIVVY_REMOTE=%s\nLD_PRELOAD=%s\n", getenv("DIVVY_REMOTE"),
			getenv("LD_PRELOAD"));
		add_library_path(&out);
	} else if (!is_container) {
		json_object_foreach(json_object_get(answer, "env"), name, value)
			if (json_is_string(value))
				buf_addf(&out, "%s=%s\n", name, json_string_value(value));
		buf_addf(&out, "LD_PRELOAD=%s\nDIVVY_ABSENT=%s\n", getenv("LD_PRELOAD"),
			getenv("DIVVY_ABSENT"));
		add_library_path(&out);
	}
	container_format(argv, &out);
	return output_buf(&out, err);
}

/* Returns only if the program could not start. */
static int cmd_run_exec_program(char *const *argv, struct error *err)
{
	int failed;

	execvp(argv[0], argv);
	failed = errno;
	fail_errno(err, failed, "'%s'", argv[0]);
	fprintf(stderr, "%s: %s\n", called, err->msg);
	return failed == ENOENT ? CLI_EXIT_RUN_MISSING : CLI_EXIT_RUN_DENIED;
}

/*
 * Users of machines without divvy are used to CUDA_VISIBLE_DEVICES=3. Under divvy the numbers count
 * the tenant's own devices, and the list ends at the first unknown number. Without the hint, the
 * program would find no device and no reason.
 */
static void hint_visible(size_t n_devices)
{
	const char *setting = getenv("CUDA_VISIBLE_DEVICES");
	uint64_t first;
	char last[32] = "";

	if (!setting ||
		parse_uint((struct str){setting, strcspn(setting, ",")}, 0, UINT32_MAX, &first,
			NULL) < 0 ||
		first < n_devices)
		return;
	if (n_devices > 1)
		snprintf(last, sizeof(last), "s 0 to %zu", n_devices - 1);
	fprintf(stderr,
		"%s: CUDA_VISIBLE_DEVICES=%.60s hides all devices from the program: this tenant "
		"has device%s only; unset the variable, and choose devices with --device\n",
		called, setting, n_devices > 1 ? last : " 0");
}

/* NVIDIA's runtime only reports an unknown error, without the reason. */
static void hint_runtime(const struct cuda_program *program, const char *device)
{
	if (program->runtime == CUDA_RUNTIME_STATIC)
		fprintf(stderr,
			"%s: '%.200s' contains NVIDIA's CUDA runtime, which refuses %s devices: "
			"build it with nvcc -cudart shared, and read `divvy doctor -- %.200s`\n",
			called, program->path, device, program->path);
	else if (program->runtime == CUDA_RUNTIME_SHARED && !cli_path_has_runtime(program->library))
		fprintf(stderr,
			"%s: '%.200s' loads NVIDIA's CUDA runtime %s, which refuses %s devices: "
			"build it with CUDA 12 or 13, for which divvy has a runtime, and read "
			"`divvy doctor -- %.200s`\n",
			called, program->path, program->library, device, program->path);
}

static int cmd_run_launch_program(const struct cli_args *args, const struct client *c,
	const json_t *answer, const struct hooks *hooks, struct error *err)
{
	_cleanup_(container_args_done) struct container_args rewritten = {0};
	char *const *argv = args->operand;
	const bool is_container = cli_has(args, "container");
	int r = set_environment(answer, hooks, !is_container);

	if (r < 0)
		return fail(err, -r, "the environment is too large");
	if (is_container) {
		r = cmd_run_rewrite_command(args, c, answer, hooks, &rewritten, err);
		if (r < 0)
			return r;
		argv = rewritten.argv;
	}
	if (cli_has(args, "dry-run")) {
		r = cli_has(args, "remote") ? remote_pretend(err) : 0;
		return r < 0 ? r : print_plan(args, answer, argv, err);
	}
	if (json_bool_or_false(answer, "simulated") && !cli_has(args, "quiet"))
		fprintf(stderr, "%s: simulated device: %s\n", called,
			json_text_or_empty(
				json_array_get(json_object_get(answer, "devices"), 0), "model"));
	if (json_text_or_empty(answer, "note")[0] && !cli_has(args, "quiet"))
		fprintf(stderr, "%s: %s\n", called, json_text_or_empty(answer, "note"));
	if (!is_container && !cli_has(args, "quiet"))
		hint_visible(json_array_size(json_object_get(answer, "devices")));
	if (cli_has(args, "remote")) {
		_cleanup_buf_ struct buf own = BUF_INIT(PLACES_PRELOAD);

		buf_addf(&own, "%s:%s", hooks->cuda, hooks->nvml);
		r = remote_begin(buf_text(&own), err);
		if (r < 0)
			return r;
	}
	return cmd_run_exec_program(argv, err);
}

/*
 * --wait needs no value, so in "--wait 5s" the parser takes "5s" as the name of the program. This
 * check then explains the mistake.
 */
static int check_wait(const struct cli_args *args, struct error *err)
{
	const char *wait = cli_get(args, "wait"), *program = args->operand[0];
	struct cuda_program found;
	uint64_t ns;

	if (wait && !wait[0] && parse_duration(str_from(program), &ns, NULL) == 0 &&
		cuda_program_find(program, &found, NULL) < 0)
		return fail(err, EINVAL,
			"--wait %s: no program '%s'; write a time limit as --wait=%s", program,
			program, program);
	return cli_get_duration(args, "wait", 0, &ns, err);
}

/* The invitation fixes the tenant's spec, so the invited program must not give one. */
static int check_invited(const struct cli_args *args, struct error *err)
{
	_cleanup_json_ json_t *spec_json = spec_options_json(args);
	const char *const others[] = {"container", "simulate", "wait", "name", "dry-run"};

	if (json_object_size(spec_json))
		return fail(err, EINVAL,
			"--%s does not work with --remote HOST; set it for divvy serve on that "
			"machine",
			json_object_iter_key(json_object_iter(spec_json)));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (cli_has(args, others[i]))
			return fail(err, EINVAL,
				"--%s does not work with --remote HOST; leave one of the two out",
				others[i]);
	return 0;
}

static int cmd_run_check(const struct cli_args *args, struct error *err)
{
	const char *simulate = cli_get(args, "simulate"), *engine = cli_get(args, "container");
	const char *place = cli_get(args, "remote");
	struct simgpu_config config;
	int r = remote_check(place, cli_get(args, "invitation"), err);

	if (r >= 0 && place && !remote_is_local(place))
		return check_invited(args, err);
	r = r < 0 ? r : spec_options_check(args, err);
	r = r < 0 ? r : check_wait(args, err);
	if (r >= 0 && engine)
		r = container_check(engine, args->operand, err);
	if (r >= 0 && engine && cli_has(args, "remote"))
		r = fail(err, EINVAL,
			"--remote and --container do not work together; leave one of the two out");
	return r < 0 || !simulate ? r : start_check_simulated(simulate, &config, err);
}

static int cmd_run_run(const struct cli_args *args, struct error *err)
{
	_cleanup_client_ struct client c = CLIENT_NONE;
	_cleanup_json_ json_t *answer = NULL;
	const char *engine = cli_get(args, "container"), *place = cli_get(args, "remote");
	struct cuda_program program = {.runtime = CUDA_RUNTIME_NONE};
	struct hooks hooks;
	bool outlives;
	int r;

	/* A missing program fails before the command waits for a device. */
	if (!cli_has(args, "dry-run")) {
		r = cuda_program_find(engine ? engine : args->operand[0], &program, err);
		if (r < 0) {
			fprintf(stderr, "%s: %s\n", called, err->msg);
			return r == -ENOENT ? CLI_EXIT_RUN_MISSING : CLI_EXIT_RUN_DENIED;
		}
	}
	if (place && !cli_has(args, "quiet"))
		hint_runtime(&program, "remote");
	if (place && !remote_is_local(place)) {
		r = remote_join(place, cli_get(args, "invitation"), err);
		return r < 0 ? r : cmd_run_exec_program(args->operand, err);
	}
	r = cli_path_hook("libdivvy-cuda.so", hooks.cuda, sizeof(hooks.cuda), err);
	r = r < 0 ? r : cli_path_hook("libdivvy-nvml.so", hooks.nvml, sizeof(hooks.nvml), err);
	cli_path_runtimes(&hooks.runtimes);
	/* A container has the libraries under other paths. */
	if (!engine) {
		r = r < 0 ? r : cli_path_check_preload(hooks.cuda, err);
		r = r < 0 ? r : cli_path_check_preload(hooks.nvml, err);
		r = r < 0 ? r : cli_path_check_runtimes(&hooks.runtimes, err);
	}
	r = r < 0 ? r : start_daemon(&c, cli_get(args, "socket"), cli_get(args, "simulate"), err);
	if (r < 0)
		return r;
	outlives = engine && !cli_has(args, "dry-run") && container_outlives(engine, args->operand);
	r = create_tenant(&c, args, outlives, &answer, err);
	if (r >= 0 && !place && !engine && !cli_has(args, "quiet") &&
		json_bool_or_false(answer, "simulated"))
		hint_runtime(&program, "simulated");
	return r < 0 ? r : cmd_run_launch_program(args, &c, answer, &hooks, err);
}

int cmd_run_called(const char *name, const struct cli_args *args, struct error *err)
{
	called = name;
	return cmd_run_run(args, err);
}

const struct cli_command cmd_run = {
	.name = "run",
	.operands = "[--] COMMAND [ARG...]",
	.summary = "Run a program with a share of a GPU",
	.text = TEXT_RUN_TEXT,
	.examples = TEXT_RUN_EXAMPLES,
	.exit_status = TEXT_RUN_EXIT_STATUS,
	.options = options,
	.operand = CLI_PROGRAM,
	.operands_min = 1,
	.operands_max = -1,
	.is_program = true,
	.failed = CLI_EXIT_RUN_FAILED,
	.check = cmd_run_check,
	.run = cmd_run_run,
};
