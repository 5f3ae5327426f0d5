/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines for container engines, as divvy rewrites them. */
#include "../unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/container.h"

static const struct container_plan real = {.engine = "docker",
	.programs_folder = "/run/divvy/programs",
	.hook_cuda = "/lib/c.so",
	.hook_nvml = "/lib/n.so",
	.uuid = {"GPU-1", "GPU-2"},
	.n_uuids = 2};

static char *rewritten(const struct container_plan *plan, char *const *given)
{
	_cleanup_(container_args_done) struct container_args args = {0};
	struct buf text = BUF_INIT(65536);
	struct error err = {0};

	if (container_rewrite(plan, given, &args, &err) < 0)
		return strdup(err.msg);
	container_format(args.argv, &text);
	return buf_take(&text);
}

static void puts_divvys_options_before_the_users(void **state)
{
	_cleanup_free_ char *text = rewritten(
		&real, (char *[]){"docker", "run", "--rm", "-e", "A=b c", "img", "-d", NULL});

	assert_non_null(text);
	assert_int_equal(strncmp(text,
				 "docker run --mount "
				 "type=bind,source=/run/divvy/programs,target=/run/divvy,readonly ",
				 83),
		0);
	assert_contains(text, "source=/lib/c.so,target=/opt/divvy/libdivvy-cuda.so,readonly");
	assert_contains(text, "--env DIVVY_TENANT --env DIVVY_SOCKET=/run/divvy/divvyd.sock ");
	assert_contains(text, "LD_PRELOAD=/opt/divvy/libdivvy-cuda.so:/opt/divvy/libdivvy-nvml.so");
	assert_contains(text, "--gpus '\"device=GPU-1,GPU-2\"'");
	assert_contains(text, " --rm -e 'A=b c' img -d\n");
}

static void names_devices_by_cdi(void **state)
{
	struct container_plan plan = real;
	_cleanup_free_ char *text = NULL;

	plan.has_cdi = true;
	text = rewritten(&plan, (char *[]){"run", "img", NULL});
	assert_contains(text, "--device nvidia.com/gpu=GPU-1 --device nvidia.com/gpu=GPU-2");
	assert_null(strstr(text, "--gpus"));
}

static void leaves_the_users_devices(void **state)
{
	_cleanup_free_ char *text = rewritten(
		&real, (char *[]){"run", "--gpus", "all", "img", NULL});

	_cleanup_free_ char *by_cdi = rewritten(
		&real, (char *[]){"run", "--device", "nvidia.com/gpu=all", "img", NULL});

	assert_contains(text, "--gpus all img");
	assert_null(strstr(text, "GPU-1"));
	assert_contains(by_cdi, "--device nvidia.com/gpu=all img");
	assert_null(strstr(by_cdi, "GPU-1"));
}

static void the_programs_own_words_choose_no_devices(void **state)
{
	_cleanup_free_ char *text = rewritten(
		&real, (char *[]){"run", "--rm", "img", "train", "--gpus", "2", NULL});
	_cleanup_free_ char *value = rewritten(
		&real, (char *[]){"run", "--label", "nvidia.com/gpu=a", "img", NULL});

	assert_contains(text, "--gpus '\"device=GPU-1,GPU-2\"'");
	assert_contains(text, "--rm img train --gpus 2\n");
	assert_contains(value, "--gpus '\"device=GPU-1,GPU-2\"'");
}

static void mounts_the_simulated_driver(void **state)
{
	struct container_plan plan = real;
	_cleanup_free_ char *text = NULL;

	plan.sim_folder = "/dev/shm/sim";
	plan.driver_folder = "/x/sim";
	plan.runtime[plan.n_runtimes++] = "/x/1/libdivvy-cudart-12.so";
	plan.runtime[plan.n_runtimes++] = "/x/1/libdivvy-cudart-13.so";
	text = rewritten(&plan, (char *[]){"run", "-e", "LD_PRELOAD=/a.so", "img", NULL});
	assert_contains(text,
		"source=/x/1/libdivvy-cudart-13.so,target=/opt/divvy/libdivvy-cudart-13.so,readonly ");
	assert_contains(text,
		"/libdivvy-nvml.so:/opt/divvy/libdivvy-cudart-12.so:"
		"/opt/divvy/libdivvy-cudart-13.so:/a.so img");
	assert_contains(text, "source=/dev/shm/sim,target=/run/divvy-sim,readonly ");
	assert_contains(text, "--env DIVVY_DRIVER=/opt/divvy/driver");
	assert_null(strstr(text, "GPU-1"));
}

static void finds_out_whether_a_container_outlives_the_engine(void **state)
{
#define OUTLIVES(...) container_outlives("docker", (char *[]){__VA_ARGS__, NULL})
	assert_true(OUTLIVES("run", "-d", "img"));
	assert_true(OUTLIVES("docker", "run", "-dit", "img"));
	assert_true(OUTLIVES("container", "run", "-itd", "img"));
	assert_true(OUTLIVES("run", "--name", "x", "--rm", "-p", "80:80", "--detach", "img"));
	assert_true(OUTLIVES("run", "-e", "-d", "--detach=true", "img"));
	assert_true(OUTLIVES("run", "-it", "-d=true", "img"));
	assert_true(OUTLIVES("docker", "create", "img"));
	assert_false(OUTLIVES("run", "img", "-d"));
	assert_false(OUTLIVES("run", "-it", "--rm", "img", "sh", "-d"));
	assert_false(OUTLIVES("run", "-e", "-d", "img"));
	assert_false(OUTLIVES("run", "--name=d", "-ed", "-d=false", "img"));
	assert_false(OUTLIVES("run"));
	assert_false(OUTLIVES("run", "-e"));
	assert_true(OUTLIVES("run", "-d", "-it", "img"));
#undef OUTLIVES
}

static void finds_the_image(void **state)
{
#define IMAGE(...) container_image("podman", (char *[]){__VA_ARGS__, NULL})
	assert_string_equal(IMAGE("podman", "run", "--rm", "-it", "a/b:1", "sh"), "a/b:1");
	assert_string_equal(
		IMAGE("run", "-v", "/x:/y", "--name=n", "-d", "--env", "A", "img"), "img");
	assert_string_equal(IMAGE("--url", "u", "container", "run", "img"), "img");
	assert_string_equal(IMAGE("create", "img", "-d"), "img");
	assert_null(IMAGE("run", "--rm"));
#undef IMAGE
}

/* These options stay before the verb, where the engine reads them. */
static void keeps_the_engines_own_options(void **state)
{
	_cleanup_free_ char *text = rewritten(&real,
		(char *[]){"--context", "run", "-D", "-Hx", "--tls", "-c", "foo", "container",
			"create", "img", NULL});
	_cleanup_free_ char *long_verb = rewritten(
		&real, (char *[]){"docker", "container", "run", "--rm", "img", NULL});

	assert_int_equal(
		strncmp(text, "docker --context run -D -Hx --tls -c foo create --mount ", 56), 0);
	assert_contains(text, " img\n");
	assert_int_equal(strncmp(long_verb, "docker run --mount ", 19), 0);
	assert_contains(long_verb, " --rm img\n");
}

/*
 * If a variable is set twice, the container gets the last value. Of preloaded libraries, the first
 * one takes precedence.
 */
static void keeps_the_users_preload_behind_divvys(void **state)
{
#define OURS "LD_PRELOAD=/opt/divvy/libdivvy-cuda.so:/opt/divvy/libdivvy-nvml.so"
	_cleanup_free_ char *word = rewritten(&real,
		(char *[]){"run", "-e", "LD_PRELOAD=/a.so", "img", "-e", "LD_PRELOAD=c", NULL});
	_cleanup_free_ char *equal = rewritten(
		&real, (char *[]){"run", "--env=LD_PRELOAD=/a.so:/b.so", "img", NULL});
	_cleanup_free_ char *cluster = rewritten(
		&real, (char *[]){"run", "-iteLD_PRELOAD=/a.so", "--rm", "img", NULL});
	_cleanup_free_ char *empty = rewritten(
		&real, (char *[]){"run", "--env", "LD_PRELOAD=", "img", NULL});
	_cleanup_free_ char *other = rewritten(
		&real, (char *[]){"run", "-e", "LD_PRELOADS=x", "-l", "LD_PRELOAD=x", "img", NULL});
	_cleanup_free_ char *bare = rewritten(
		&real, (char *[]){"run", "-e", "LD_PRELOAD", "img", NULL});

	assert_contains(word, " --env " OURS ":/a.so img -e LD_PRELOAD=c\n");
	assert_contains(equal, " --env " OURS ":/a.so:/b.so img\n");
	assert_contains(cluster, " -it --env " OURS ":/a.so --rm img\n");
	assert_contains(empty, " --env " OURS " img\n");
	assert_contains(other, " -e LD_PRELOADS=x -l LD_PRELOAD=x img\n");
	assert_contains(bare, "--env LD_PRELOAD has no value");
}

/* The list of a program with many libraries of its own is long. */
static void keeps_a_long_preload(void **state)
{
	_cleanup_buf_ struct buf preload = BUF_INIT(65536);
	_cleanup_free_ char *text = NULL;

	buf_addf(&preload, "LD_PRELOAD=");
	for (int i = 0; i < 1000; i++)
		buf_addf(&preload, "/usr/lib/library.so:");
	buf_addf(&preload, "/last.so");
	text = rewritten(
		&real, (char *[]){"run", "-e", (char *)(uintptr_t)buf_text(&preload), "img", NULL});
	assert_contains(text, "/libdivvy-nvml.so:/usr/lib/library.so:");
	assert_contains(text, "/last.so img");
}

static void refuses_other_commands(void **state)
{
	static char *const none[][5] = {{"img"}, {"--rm", "img"}, {"container", "exec", "x"},
		{"container"}, {"--context", "foo", "build", "."}, {"compose", "run", "x"},
		{"docker"}, {"--context"}};

	_cleanup_free_ char *text = rewritten(&real, (char *[]){"docker", "exec", "x", NULL});
	_cleanup_free_ char *list = rewritten(&real, (char *[]){"ps", NULL});
	_cleanup_free_ char *empty = rewritten(&real, (char *[]){"run", NULL});
	_cleanup_free_ char *image = rewritten(&real, (char *[]){"run", "build", NULL});
	static char *many[CONTAINER_ARGS_MAX + 2];
	_cleanup_free_ char *too_many = NULL;

	assert_contains(text, "docker exec: expected 'run' or 'create'");
	assert_contains(list, "docker ps: expected 'run' or 'create'");
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		_cleanup_free_ char *no = rewritten(&real, none[i]);

		assert_contains(no, "expected 'run' or 'create'");
	}
	assert_contains(empty, "image is missing");
	assert_null(strstr(image, "expected"));
	for (size_t i = 0; i <= CONTAINER_ARGS_MAX; i++)
		many[i] = i ? "x" : "run";
	too_many = rewritten(&real, many);
	assert_contains(too_many, "more than 512");
}

UNIT_MAIN(UNIT(puts_divvys_options_before_the_users), UNIT(names_devices_by_cdi),
	UNIT(leaves_the_users_devices), UNIT(the_programs_own_words_choose_no_devices),
	UNIT(mounts_the_simulated_driver), UNIT(finds_out_whether_a_container_outlives_the_engine),
	UNIT(finds_the_image), UNIT(keeps_the_engines_own_options),
	UNIT(keeps_the_users_preload_behind_divvys), UNIT(keeps_a_long_preload),
	UNIT(refuses_other_commands))
