/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file holds the list of variables that a worker or a link inherits, each with a mask of these
 * programs. inherit_fill() puts the caller's variables first, so they win over variables of the
 * same name in our environment. A variable outside the list reaches the new environment only if the
 * caller passes that variable. The functions allocate nothing: the result points into the caller's
 * texts and into environ.
 */
#include "base/inherit.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define BOTH (INHERIT_BY_WORKER | INHERIT_BY_LINK)

static const struct {
	const char *name;
	unsigned int by;
} kept[] = {
	/* Paths. */
	{"PATH", BOTH},
	{"HOME", BOTH},
	{"TMPDIR", BOTH},
	{"XDG_RUNTIME_DIR", BOTH},
	{"LD_LIBRARY_PATH", BOTH},
	{"DIVVY_RUNTIME_DIR", BOTH},
	{"DIVVY_SOCKET", BOTH},
	{"DIVVY_DRIVER", BOTH},
	{"DIVVY_SIM", BOTH},
	{"DIVVY_SIM_COSTS", BOTH},
	{"DIVVY_SIM_DEVICES", BOTH},
	{"DIVVY_SIM_ENGINE", BOTH},
	/* The tenant's secret; worker-main.c removes it from the environment. */
	{"DIVVY_TENANT", BOTH},
	{"DIVVY_ABSENT", BOTH},
	{"DIVVY_REMOTE_STORE", BOTH},
	/* Set by an administrator for workers: see remote/host-access.h. */
	{"DIVVY_REMOTE_HOST_ACCESS", BOTH},
	{"DIVVY_REMOTE_MINORS", BOTH}, /* see remote/confine.h */
	{"DIVVY_LOG", BOTH},
	{"JOURNAL_STREAM", BOTH},
	/* Variables of the driver. */
	{"CUDA_VISIBLE_DEVICES", BOTH},
	{"CUDA_DEVICE_ORDER", BOTH},
	{"CUDA_DEVICE_MAX_CONNECTIONS", BOTH},
	{"CUDA_MODULE_LOADING", BOTH},
	{"CUDA_CACHE_DISABLE", BOTH},
	{"CUDA_CACHE_MAXSIZE", BOTH},
	{"CUDA_CACHE_PATH", BOTH},
	{"CUDA_MPS_PIPE_DIRECTORY", BOTH},
	/* Options of sanitizers that divvy may be built with. */
	{"ASAN_OPTIONS", BOTH},
	{"LSAN_OPTIONS", BOTH},
	{"TSAN_OPTIONS", BOTH},
	{"UBSAN_OPTIONS", BOTH},
	/*
	 * The interception library. divvy run starts the link of divvy serve with this variable,
	 * and the link's workers inherit the variable from the link.
	 */
	{"LD_PRELOAD", INHERIT_BY_WORKER},
	/* Only links inherit these. */
	{"DIVVY_INVITATION", INHERIT_BY_LINK},
	{"DIVVY_REMOTE_HOOKS", INHERIT_BY_LINK},
	{"DIVVY_SERVE", INHERIT_BY_LINK},
};

bool inherit_is_kept(enum inherit_by by, const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (kept[i].by & by && strlen(kept[i].name) == n && !memcmp(kept[i].name, name, n))
			return true;
	return false;
}

static bool inherit_has_name(const char *const *list, size_t n_list, const char *name, size_t n)
{
	for (size_t i = 0; i < n_list; i++)
		if (strcspn(list[i], "=") == n && !memcmp(list[i], name, n))
			return true;
	return false;
}

size_t inherit_fill(
	enum inherit_by by, const char *const *more, const char *ret_env[INHERIT_MAX + 1])
{
	size_t n = 0;

	for (; more && more[n] && n < INHERIT_MAX; n++)
		ret_env[n] = more[n];
	for (size_t i = 0; environ[i] && n < INHERIT_MAX; i++) {
		const size_t name = strcspn(environ[i], "=");

		if (inherit_is_kept(by, environ[i], name) &&
			!inherit_has_name(ret_env, n, environ[i], name))
			ret_env[n++] = environ[i];
	}
	ret_env[n] = NULL;
	return n;
}
