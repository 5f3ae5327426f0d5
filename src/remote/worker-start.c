/* SPDX-License-Identifier: Apache-2.0 */
/* Makes sessions and starts workers: see worker-start.h. Any thread. */
#include "remote/worker-start.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/install-path.h"
#include "base/inherit.h"
#include "base/parse.h"
#include "remote/store.h"

int session_new(enum remote_link_role link_role, struct map *ret_map, int *ret_fd)
{
	_cleanup_close_ int fd = memfd_new("divvy-remote", REMOTE_BYTES);
	struct remote_session *session;
	int r = fd;

	if (r >= 0)
		r = map_fd(fd, REMOTE_BYTES, PROT_READ | PROT_WRITE, ret_map);
	if (r < 0)
		return r;
	session = ret_map->p;
	session->magic = REMOTE_MAGIC;
	session->abi = REMOTE_ABI;
	session->link_role = link_role;
	session->lanes = REMOTE_LANES;
	session->ring_bytes = REMOTE_RING;
	r = memfd_seal(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

void workers_begin(void)
{
	const int fd = store_new();
	char number[16];

	snprintf(number, sizeof(number), "%d", fd);
	/* Without a store each worker gets all images, which is only slower. */
	if (fd >= 0)
		setenv(STORE_ENV, number, 1);
	else
		unsetenv(STORE_ENV);
}

void worker_become(int sock)
{
	/* Where the worker is installed, and where it is built. */
	static const char *const folders[] = {".", "../remote", NULL};
	const char *preload = getenv("DIVVY_REMOTE_HOOKS"), *store = getenv(STORE_ENV);
	const char *more[2] = {NULL}, *env[INHERIT_MAX + 1];
	char path[PATH_MAX], number[16], text[2 * PATH_MAX + 16];
	uint64_t fd;

	if (install_path_find(folders, "divvy-remote-worker", X_OK, path, sizeof(path)) < 0)
		return;
	snprintf(number, sizeof(number), "%d", sock);
	fd_set_cloexec(sock, false);
	if (store && parse_uint(str_from(store), 0, INT_MAX, &fd, NULL) == 0)
		fd_set_cloexec((int)fd, false);
	/* Without a daemon the worker must not run ungated, so it then gets no device. */
	setenv("DIVVY_ABSENT", "closed", 1);
	if (preload &&
		(size_t)snprintf(text, sizeof(text), "LD_PRELOAD=%s", preload) >= sizeof(text))
		return;
	more[0] = preload ? text : NULL;
	/*
	 * Passes few variables: a GPU kernel may be able to read the environment (docs/remote.md).
	 */
	inherit_fill(INHERIT_BY_WORKER, more, env);
	execve(path, (char *[]){path, number, (char[]){WORKER_WHOSE}, NULL},
		(char *const *)(uintptr_t)env);
}
