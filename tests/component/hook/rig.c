/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See rig.h. The parent creates the folder for a scenario's files and removes it, even if the child
 * crashes.
 */
#include "rig.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/ledger-counter.h"
#include "../../patience.h"

static char folder[64], path[80];

void rig_options(struct fake_options *ret_options)
{
	*ret_options = (struct fake_options){
		.devices = 1,
		.quota_bytes = 8 * GiB,
		.context_bytes = CONTEXT_BYTES,
	};
	for (uint32_t i = 0; i < FAKE_DEVICES; i++)
		fake_stub_uuid(i, ret_options->uuid[i]);
}

struct fake_daemon *rig_start(const struct fake_options *options)
{
	struct fake_daemon *daemon;

	snprintf(path, sizeof path, "%s/sock", folder);
	setenv("DIVVY_SOCKET", path, 1);
	daemon = fake_daemon_new(path, options);
	return daemon;
}

void rig_stop(struct fake_daemon *daemon)
{
	fake_daemon_free(daemon);
	unlink(path);
}

CUcontext rig_context(void)
{
	CUcontext context = NULL;

	if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS)
		return NULL;
	return context;
}

uint64_t rig_charged(struct fake_daemon *daemon, uint32_t device)
{
	return ledger_counter_pages(fake_daemon_tenant(daemon, device)) * PAGE_MEM_UNIT;
}

const char *rig_folder(void)
{
	return folder;
}

static void remove_folder(void)
{
	DIR *dir = opendir(folder);
	char file[sizeof folder + NAME_MAX + 1];

	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		snprintf(file, sizeof file, "%s/%s", folder, e->d_name);
		unlink(file); /* not . and .. */
	}
	if (dir)
		closedir(dir);
	rmdir(folder);
}

void rig_child(int (*fn)(void *), void *arg)
{
	int status = 0;
	pid_t pid;

	snprintf(folder, sizeof folder, "/tmp/divvy-hook-XXXXXX");
	assert_non_null(mkdtemp(folder));
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int r;

		alarm(patience_s(PATIENCE_S));
		r = fn(arg);
		fflush(NULL);
		_exit(r);
	}
	if (waitpid(pid, &status, 0) != pid)
		status = -1;
	remove_folder();
	if (WIFSIGNALED(status))
		fail_msg("the child ended by signal %d", WTERMSIG(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}
