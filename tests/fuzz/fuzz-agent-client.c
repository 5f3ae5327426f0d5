/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends packets on a connection of the daemon, each with up to two file descriptors that are almost
 * valid. The daemon is real, its devices are not. Input: { u16 size, u8 descriptors, bytes } ...;
 * the last size is cut to the input's end.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/agent-client.h"
#include "agent/device.h"
#include "base/fd.h"
#include "base/log.h"
#include "fuzz.h"

#define DEVICES 2u
#define MEMORY_BYTES (80ull << 30)
#define PACKETS_MAX 64

static struct agent *agent;
static char folder[] = "/tmp/divvy-fuzz-XXXXXX";

static void at_end(void)
{
	char path[64];

	agent_free(agent);
	for (const char *const *name =
			(const char *const[]){"state", "usage", "tally", "lock", NULL};
		*name; name++) {
		snprintf(path, sizeof(path), "%s/%s", folder, *name);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/programs", folder);
	rmdir(path);
	rmdir(folder);
}

static struct device_set *make_devices(void)
{
	struct device_set *set = calloc(1, sizeof(*set));

	set->devices = calloc(DEVICES, sizeof(*set->devices));
	set->is_simulated = true;
	for (set->n = 0; set->n < DEVICES; set->n++) {
		struct device *d = &set->devices[set->n];

		d->index = set->n;
		d->lock = LOCK_NONE;
		d->context_guess_bytes = d->context_bytes = 512ull << 20;
		d->info = (struct nvml_info){.memory_bytes = MEMORY_BYTES,
			.usable_bytes = MEMORY_BYTES,
			.compute_mode = "default",
			.model = "Fuzz"};
		snprintf(d->info.uuid, sizeof(d->info.uuid),
			"GPU-00000000-0000-0000-0000-00000000000%u", set->n);
		device_parse_uuid(d->info.uuid, d->uuid);
		if (ledger_new(MEMORY_BYTES, 1500, &d->ledger) < 0)
			abort();
	}
	snprintf(set->sim_dir, sizeof(set->sim_dir), "%s", folder);
	return set;
}

static void start(void)
{
	struct agent_options options = {.oversubscribe_permille = 1500};
	struct error err;

	log_set_level(LOG_LEVEL_ERROR);
	if (!mkdtemp(folder))
		abort();
	options.runtime_dir = folder;
	options.tenants_conf = "/dev/null";
	options.devices = make_devices();
	if (agent_new(&options, &agent, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		abort();
	}
	atexit(at_end);
}

/*
 * Makes a valid page, a page that is too short, a page without seals, or a descriptor that is no
 * memfd.
 */
static int make_fd(unsigned int kind)
{
	int fd;

	if (kind % 4 == 3)
		return dup(2);
	fd = memfd_new("fuzz", kind % 4 == 1 ? 64 : sizeof(struct page_up));
	if (fd >= 0 && kind % 4 != 2)
		memfd_seal(fd, F_SEAL_SHRINK | F_SEAL_GROW);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static _Alignas(8) char packet[MSG_MAX];
	struct conn *conn = NULL;
	struct tenant *t;
	int pair[2];

	if (!agent)
		start();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return 0;
	if (client_accept(agent, pair[0], USER_UID, 0, &conn) < 0)
		abort();
	for (int i = 0; i < PACKETS_MAX && size > 3 && !conn->is_dead; i++) {
		size_t n = MIN((size_t)(data[0] | data[1] << 8), size - 3);
		int fds[2] = {-1, -1};
		size_t n_fds = data[2] % 3;

		n = MIN(n, sizeof(packet));
		for (size_t k = 0; k < n_fds; k++)
			fds[k] = make_fd(data[2] >> (2 + 2 * k));
		memcpy(packet, data + 3, n);
		client_packet(conn, packet, (uint32_t)n, fds, n_fds);
		for (size_t k = 0; k < n_fds; k++)
			fd_close(fds[k]);
		data += 3 + n;
		size -= 3 + n;
		/*
		 * The daemon frees connections only in agent_after_batch(), so `conn` stays valid.
		 */
	}
	close(pair[1]);
	/* Removes all tenants, so that the next input finds an empty machine. */
	LIST_FOREACH(t, &agent->tenants, link)
		tenant_kill(t);
	for (int i = 0; i < 3; i++) {
		loop_run_once(agent->loop, 0);
		agent_after_batch(agent);
		/* a message "replace" in the input makes the daemon leave */
		agent->is_leaving = false;
	}
	return 0;
}
