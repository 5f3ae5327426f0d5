/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharer FD: shares device memory with another sharer through the socket FD. Each line on stdin is
 * a command; the answer is one number, the driver's result.
 * create MIB, export, import, receive (keep a descriptor), use (import the kept descriptor), close,
 * release: memory by handle. hoard N MIB: create, export, import, close, release, N times; the
 * answer is the number of successes. pile N MIB: the same without import and close.
 * alloc MIB, free, get, open, shut: allocations and their IPC handles. room: free memory in MiB.
 * begin: makes the context. exit, or the end of stdin: ends the program.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "cuda/proto.h"

#define DRIVER(name) ((PFN_##name *)(uintptr_t)dlsym(driver, #name))
#define FD_TYPE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static void *driver;
static int channel;
static CUmemGenericAllocationHandle handle;
static CUdeviceptr allocated, opened;
static int kept = -1;

static int begin(void)
{
	CUcontext context;
	int r = (int)DRIVER(cuInit)(0);

	return r ? r : (int)DRIVER(cuCtxCreate_v2)(&context, 0, 0);
}

static int create(size_t mib)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = FD_TYPE,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};

	return (int)DRIVER(cuMemCreate)(&handle, mib << 20, &prop, 0);
}

static int export_fd(int *ret_fd)
{
	return (int)DRIVER(cuMemExportToShareableHandle)(ret_fd, handle, FD_TYPE, 0);
}

static int import(int fd)
{
	return (int)DRIVER(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fd, FD_TYPE);
}

static int release(void)
{
	return (int)DRIVER(cuMemRelease)(handle);
}

static int send_export(void)
{
	int fd, r = export_fd(&fd);

	if (!r && fd_send(channel, "", 1, &fd, 1, 0) != 1)
		r = -1;
	if (!r)
		close(fd);
	return r;
}

static int receive(void)
{
	struct fd_list fds = {.n = 0};
	char byte;

	if (fd_recv(channel, &byte, 1, &fds, 0) != 1 || fds.n != 1)
		return -1;
	kept = dup(fds.fd[0]);
	fd_list_done(&fds);
	return 0;
}

static int close_kept(void)
{
	return close(kept);
}

static int use_kept(void)
{
	return import(kept);
}

static int receive_and_use(void)
{
	int r = receive();

	r = r ? r : use_kept();
	close_kept();
	return r;
}

static int gather(int n, size_t mib, int does_import)
{
	int done = 0;

	for (; done < n; done++) {
		CUmemGenericAllocationHandle made;
		int fd;

		if (create(mib) || export_fd(&fd))
			break;
		made = handle;
		if (does_import && import(fd)) {
			close(fd);
			release();
			break;
		}
		if (does_import)
			close(fd);
		handle = made;
		release();
	}
	return done;
}

static int get(void)
{
	CUipcMemHandle h;
	int r = (int)DRIVER(cuIpcGetMemHandle)(&h, allocated);

	return r ? r : (write(channel, &h, sizeof(h)) == sizeof(h) ? 0 : -1);
}

static int open_ipc(void)
{
	CUipcMemHandle h;

	if (fd_read_exact(channel, &h, sizeof(h)) < 0)
		return -1;
	return (int)DRIVER(cuIpcOpenMemHandle_v2)(&opened, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static int room(void)
{
	size_t free = 0, total;

	return DRIVER(cuMemGetInfo_v2)(&free, &total) ? -1 : (int)(free >> 20);
}

static int obey(const char *word, int a, int b)
{
	if (!strcmp(word, "begin"))
		return begin();
	if (!strcmp(word, "create"))
		return create((size_t)a);
	if (!strcmp(word, "export"))
		return send_export();
	if (!strcmp(word, "import"))
		return receive_and_use();
	if (!strcmp(word, "receive"))
		return receive();
	if (!strcmp(word, "use"))
		return use_kept();
	if (!strcmp(word, "close"))
		return close_kept();
	if (!strcmp(word, "release"))
		return release();
	if (!strcmp(word, "hoard"))
		return gather(a, (size_t)b, 1);
	if (!strcmp(word, "pile"))
		return gather(a, (size_t)b, 0);
	if (!strcmp(word, "alloc"))
		return (int)DRIVER(cuMemAlloc_v2)(&allocated, (size_t)a << 20);
	if (!strcmp(word, "free"))
		return (int)DRIVER(cuMemFree_v2)(allocated);
	if (!strcmp(word, "get"))
		return get();
	if (!strcmp(word, "open"))
		return open_ipc();
	if (!strcmp(word, "shut"))
		return (int)DRIVER(cuIpcCloseMemHandle)(opened);
	if (!strcmp(word, "room"))
		return room();
	return -2;
}

int main(int argc, char **argv)
{
	char line[128], word[32];

	channel = argc > 1 ? (int)strtol(argv[1], NULL, 10) : -1;
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		int a = 0, b = 0;

		if (sscanf(line, "%31s %d %d", word, &a, &b) < 1 || !strcmp(word, "exit"))
			break;
		printf("%d\n", obey(word, a, b));
		fflush(stdout);
	}
	return 0;
}
