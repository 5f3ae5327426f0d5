/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libnvidia-ml.so.1 for tests of the daemon. The leading number of $DIVVY_SIM_DEVICES is the
 * number of devices, each a "Test-80Gi". The file $DIVVY_FAKE_NVML lists the processes, one "pid
 * device bytes" a line; each query reads it again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MEMORY (80ull << 30)

struct process {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu, compute;
};
struct memory {
	unsigned long long total, free, used;
};

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned int *n);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **ret);
EXPORT int nvmlDeviceGetName(void *h, char *s, unsigned int n);
EXPORT int nvmlDeviceGetUUID(void *h, char *s, unsigned int n);
EXPORT int nvmlDeviceGetMemoryInfo(void *h, struct memory *m);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned int *n, struct process *ret);

static char devices[16];

static unsigned int index_of(const void *handle)
{
	return (unsigned int)((const char *)handle - devices);
}

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned int *n)
{
	const char *spec = getenv("DIVVY_SIM_DEVICES");

	*n = spec && spec[1] == 'x' ? (unsigned int)(spec[0] - '0') : 1;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **ret)
{
	*ret = &devices[i];
	return 0;
}

int nvmlDeviceGetName(void *h, char *s, unsigned int n)
{
	snprintf(s, n, "Test");
	return 0;
}

int nvmlDeviceGetUUID(void *h, char *s, unsigned int n)
{
	snprintf(s, n, "GPU-00000000-0000-0000-0000-00000000000%u", index_of(h));
	return 0;
}

static unsigned int list(unsigned int device, struct process *ret, unsigned int max)
{
	const char *path = getenv("DIVVY_FAKE_NVML");
	FILE *f = path ? fopen(path, "re") : NULL;
	unsigned int pid, at, n = 0;
	unsigned long long bytes;

	while (f && n < max && fscanf(f, "%u %u %llu", &pid, &at, &bytes) == 3)
		if (at == device)
			ret[n++] = (struct process){.pid = pid, .used = bytes};
	if (f)
		fclose(f);
	return n;
}

int nvmlDeviceGetMemoryInfo(void *h, struct memory *m)
{
	struct process processes[256];
	unsigned int n = list(index_of(h), processes, 256);

	*m = (struct memory){.total = MEMORY, .free = MEMORY};
	while (n--)
		m->used += processes[n].used;
	m->free -= m->used;
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned int *n, struct process *ret)
{
	*n = list(index_of(h), ret, *n);
	return 0;
}
