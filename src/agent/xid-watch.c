/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One job of a worker of its own waits for the next Xids, and its end hands them to the loop,
 * which submits the job again. The job also reads the kernel log, because only the kernel log
 * names the process that caused an Xid. Without the right to read the kernel log, or if the log
 * names no process, the Xid probably belongs to the tenant that alone used the device lately.
 *
 * The job touches only its own memory, the driver and the kernel log. `is_ending` ends its wait.
 */
#include "agent/xid-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent-client.h"
#include "agent/agent-memory.h"
#include "agent/device.h"
#include "driver/xid.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "simgpu/simgpu-proto.h"
#include "threads/thread-worker.h"

#define XIDS_MAX 64u /* Xids that one job hands over; the driver keeps further ones */
/*
 * Longest wait in one call of the driver. It delays the daemon's end and nvml_reopen(), which wait
 * for the call.
 */
#define XID_WAIT_MS 250u
#define LINES_MAX 64u /* latest lines of the kernel log that no Xid has used */
#define LINE_BYTES 2048u
/* The driver writes the line before it reports the Xid, but /dev/kmsg may show it a bit later. */
#define LINE_TRIES 5u
#define LINE_WAIT_NS (10 * NSEC_PER_MSEC)
#define LINE_AGE_NS NSEC_PER_SEC /* from reading a line to the latest Xid that the line is about */

/*
 * An error often ends the program that caused it, so a tenant whose process ended within this time
 * may have caused an Xid, too.
 */
#define LEFT_NS (10 * NSEC_PER_SEC)
#define LISTED_MAX 4096u

struct xid_seen {
	struct nvml_xid xid;
	pid_t pid; /* 0: not known */
};

struct xid_kept_line {
	struct xid_line line;
	uint64_t read_ns;
};

/* The end of a tenant's process on a device. */
struct xid_end {
	arbiter_id tenant; /* 0: none */
	uint64_t ns;
};

struct xid_place {
	char uuid[96];
	struct xid_pci pci;
};

struct xid_watch {
	struct worker_job job;
	struct agent *agent;
	struct worker *worker;
	struct nvml *nvml;
	_Atomic bool is_ending;

	/* the job's */
	struct xid_place places[ARBITER_DEVICES];
	uint32_t n_places;
	struct xid_seen seen[XIDS_MAX];
	uint32_t n_seen;
	int log_fd;       /* the kernel log; -1: unreadable */
	bool has_records; /* each read() returns one line, as from /dev/kmsg */
	char part[LINE_BYTES];
	size_t n_part;
	struct xid_kept_line lines[LINES_MAX]; /* the oldest first */
	uint32_t n_lines;

	/* the loop's */
	struct xid_report reports[XID_REPORTS_MAX];
	uint32_t first_report, n_reports;
	/* The last end of a process, and the last one of another tenant than that one. */
	struct xid_end ends[ARBITER_DEVICES][2];
	uint64_t unmanaged_devices, unmanaged_generation;
};

/* ---- the kernel log ---- */

static void xid_keep_line(struct xid_watch *w, struct str text)
{
	struct xid_kept_line kept = {.read_ns = clock_now_ns()};

	if (!xid_line_parse(text, &kept.line))
		return;
	if (w->n_lines == LINES_MAX)
		memmove(w->lines, w->lines + 1, --w->n_lines * sizeof(*w->lines));
	w->lines[w->n_lines++] = kept;
}

/* A line whose Xid the driver did not report must not serve a later Xid of the same number. */
static void xid_drop_old_lines(struct xid_watch *w)
{
	uint32_t n = 0;

	while (n < w->n_lines && clock_since_ns(clock_now_ns(), w->lines[n].read_ns) > LINE_AGE_NS)
		n++;
	w->n_lines -= n;
	memmove(w->lines, w->lines + n, w->n_lines * sizeof(*w->lines));
}

/* Reads all lines that the log has now. A line that is too long is dropped. */
static void xid_read_log(struct xid_watch *w)
{
	for (;;) {
		const ssize_t n = w->log_fd < 0
			? 0
			: read(w->log_fd, w->part + w->n_part, sizeof(w->part) - w->n_part);
		struct str rest, line;

		/*
		 * EPIPE: the kernel has overwritten lines that were not read yet. EINVAL: the
		 * record is longer than LINE_BYTES; the kernel has skipped it.
		 */
		if (n < 0 && (errno == EPIPE || (errno == EINVAL && w->has_records)))
			continue;
		if (n <= 0)
			return;
		rest = (struct str){w->part, w->n_part + (size_t)n};
		while (str_find(rest, '\n') < rest.n && str_split(&rest, '\n', &line))
			xid_keep_line(w, line);
		w->n_part = w->has_records || rest.n == sizeof(w->part) ? 0 : rest.n;
		memmove(w->part, rest.p, w->n_part);
	}
}

static const struct xid_place *xid_place(const struct xid_watch *w, const char *uuid)
{
	for (uint32_t i = 0; i < w->n_places; i++)
		if (!strcmp(w->places[i].uuid, uuid))
			return &w->places[i];
	return NULL;
}

/* Takes the process out of the line about the Xid. Returns false if there is no such line yet. */
static bool xid_take_line(struct xid_watch *w, const struct nvml_xid *xid, pid_t *ret_pid)
{
	const struct xid_place *place = xid_place(w, xid->uuid);

	for (uint32_t i = 0; place && i < w->n_lines; i++) {
		const struct xid_line *line = &w->lines[i].line;

		if (line->xid != xid->xid || memcmp(&line->pci, &place->pci, sizeof(line->pci)))
			continue;
		*ret_pid = line->pid;
		memmove(&w->lines[i], &w->lines[i + 1], (--w->n_lines - i) * sizeof(*w->lines));
		return true;
	}
	return false;
}

static pid_t xid_find_pid(struct xid_watch *w, const struct nvml_xid *xid)
{
	pid_t pid = 0;

	xid_drop_old_lines(w);
	for (uint32_t i = 0; i < LINE_TRIES && w->log_fd >= 0; i++) {
		if (i)
			clock_sleep_until_ns(clock_now_ns() + LINE_WAIT_NS);
		xid_read_log(w);
		if (xid_take_line(w, xid, &pid))
			break;
	}
	return pid;
}

static void xid_open_log(struct xid_watch *w)
{
	const struct device_set *set = w->agent->devices;
	char path[PATH_SIZE_MAX + 32] = "/dev/kmsg";

	w->has_records = !set->is_simulated;
	if (set->is_simulated) {
		snprintf(path, sizeof(path), "%s/" SIMGPU_FILE_KMSG, set->sim_dir);
		w->log_fd = open(path, O_RDONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0644);
	} else {
		w->log_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	}
	/* Lines from before the daemon's start belong to Xids that it does not learn of. */
	if (w->log_fd < 0 || lseek(w->log_fd, 0, SEEK_END) < 0)
		log_debug(
			"'%s': %s; Xids are reported without their process", path, strerror(errno));
}

/* ---- the job ---- */

static void xid_watch_run(struct worker_job *job)
{
	struct xid_watch *w = (struct xid_watch *)job;
	int r = 0;

	w->n_seen = 0;
	while (r >= 0 && w->n_seen < XIDS_MAX && !atomic_load(&w->is_ending)) {
		struct xid_seen *seen = &w->seen[w->n_seen];

		/* Lines that come without an Xid must grow old. */
		xid_read_log(w);
		r = nvml_await_xid(w->nvml, w->n_seen ? 0 : XID_WAIT_MS, &seen->xid);
		if (r == 0 && w->n_seen)
			return;
		if (r <= 0)
			continue;
		seen->pid = xid_find_pid(w, &seen->xid);
		w->n_seen++;
	}
	/* The driver is closed, or has no device to watch now. */
	if (r < 0)
		clock_sleep_until_ns(clock_now_ns() + XID_WAIT_MS * NSEC_PER_MSEC);
}

static struct process *xid_find_process(const struct agent *agent, pid_t pid)
{
	struct process *p;

	LIST_FOREACH(p, &agent->processes, link)
		if (pid && p->pid == pid)
			return p;
	return NULL;
}

void xid_watch_process_exited(const struct process *process)
{
	const struct tenant *t = process->tenant;
	struct xid_watch *w = process->agent->xid_watch;

	for (uint32_t i = 0; w && i < t->n; i++) {
		struct xid_end *ends = w->ends[t->devices[i].device->index];

		if (ends[0].tenant != t->id)
			ends[1] = ends[0];
		ends[0] = (struct xid_end){.tenant = t->id, .ns = clock_now_ns()};
	}
}

/* Whether a process of another tenant has just left one of the devices. */
static bool xid_has_other_left(
	const struct xid_watch *w, uint64_t devices, const struct tenant *tenant)
{
	for (uint32_t i = 0; i < ARBITER_DEVICES; i++)
		for (uint32_t k = 0; devices >> i & 1 && k < 2; k++) {
			const struct xid_end *end = &w->ends[i][k];

			if (end->tenant && end->tenant != tenant->id &&
				clock_since_ns(clock_now_ns(), end->ns) <= LEFT_NS)
				return true;
		}
	return false;
}

/* Finds the devices with unmanaged processes, once for each answer of the devices. */
static uint64_t xid_find_unmanaged(struct xid_watch *w)
{
	const uint64_t generation = memory_generation(w->agent);
	_cleanup_free_ struct memory_unmanaged *listed = NULL;
	size_t n;

	if (w->unmanaged_generation == generation)
		return w->unmanaged_devices;
	listed = calloc(LISTED_MAX, sizeof(*listed));
	if (!listed)
		return UINT64_MAX;
	n = memory_listed(w->agent, listed, LISTED_MAX);
	w->unmanaged_devices = 0;
	w->unmanaged_generation = generation;
	for (size_t i = 0; i < n; i++)
		if (!xid_find_process(w->agent, listed[i].pid))
			w->unmanaged_devices |= 1ull << listed[i].device;
	return w->unmanaged_devices;
}

/*
 * The tenant that alone has processes on the devices; NULL: none or several, or another program
 * may have caused the Xid.
 */
static const struct tenant *xid_find_only_tenant(struct xid_watch *w, uint64_t devices)
{
	const struct tenant *only = NULL, *t;
	uint32_t n = 0;

	LIST_FOREACH(t, &w->agent->tenants, link) {
		bool is_there = false;

		for (uint32_t i = 0; i < t->n; i++)
			is_there |= t->n_processes && devices >> t->devices[i].device->index & 1;
		n += is_there;
		only = is_there ? t : only;
	}
	return n == 1 && !xid_has_other_left(w, devices, only) && !(xid_find_unmanaged(w) & devices)
		? only
		: NULL;
}

static void xid_add_report(struct xid_watch *w, const struct xid_seen *seen, uint64_t devices,
	const struct tenant *tenant)
{
	struct xid_report *report;

	if (w->n_reports == XID_REPORTS_MAX) {
		w->first_report = (w->first_report + 1) % XID_REPORTS_MAX;
		w->n_reports--;
	}
	report = &w->reports[(w->first_report + w->n_reports++) % XID_REPORTS_MAX];
	*report = (struct xid_report){.xid = seen->xid.xid,
		.device = (uint32_t)__builtin_ctzll(devices),
		.pid = seen->pid,
		.is_probable = tenant && !seen->pid};
	if (tenant && tenant->pod)
		report->pod = *tenant->pod;
}

static void xid_watch_note(struct xid_watch *w, const struct xid_seen *seen)
{
	struct device_set *set = w->agent->devices;
	const struct nvml_xid *xid = &seen->xid;
	const uint64_t devices = device_of_xid(set, xid),
		       faulty = device_note_xid(set, xid, clock_real_ns());
	const struct tenant *tenant = NULL;
	struct process *process;

	log_info("device %s: Xid %" PRIu64 " (%s), process %d", xid->uuid[0] ? xid->uuid : "?",
		xid->xid, xid_text(xid->xid), (int)seen->pid);
	for (uint32_t i = 0; i < set->n; i++)
		if (faulty & 1ull << i)
			memory_report_fault(w->agent, &set->devices[i]);
	if (xid_kind(xid->xid) != XID_PROGRAM || !devices)
		return;
	process = xid_find_process(w->agent, seen->pid);
	if (process)
		tenant = process->tenant;
	else if (!seen->pid)
		tenant = xid_find_only_tenant(w, devices);
	if (process && !process->is_dead)
		client_send_diagnostic(process->conn, (uint32_t)__builtin_ctzll(devices),
			"device %s: this program caused Xid %" PRIu64 " (%s)", xid->uuid, xid->xid,
			xid_text(xid->xid));
	if (tenant)
		log_info("tenant %s %scaused Xid %" PRIu64, tenant->name,
			process ? "" : "probably ", xid->xid);
	xid_add_report(w, seen, devices, tenant);
}

static void xid_watch_done(struct worker_job *job)
{
	struct xid_watch *w = (struct xid_watch *)job;

	for (uint32_t i = 0; i < w->n_seen; i++)
		xid_watch_note(w, &w->seen[i]);
	/* An Xid often comes with other faults, which only a query that begins now shows. */
	if (w->n_seen)
		memory_query(w->agent);
	if (!w->agent->is_leaving)
		worker_submit(w->worker, &w->job);
}

bool xid_watch_take(struct agent *agent, struct xid_report *ret_report)
{
	struct xid_watch *w = agent->xid_watch;

	if (!w || !w->n_reports)
		return false;
	*ret_report = w->reports[w->first_report];
	w->first_report = (w->first_report + 1) % XID_REPORTS_MAX;
	w->n_reports--;
	return true;
}

int xid_watch_new(struct agent *agent, struct error *err)
{
	const struct device_set *set = agent->devices;
	struct xid_watch *w;
	bool is_any = false;
	int r;

	for (uint32_t i = 0; i < set->n; i++) {
		const struct nvml_info *info = &set->devices[i].info;

		/*
		 * Devices are in NVML's order, in which the instances of one device follow one
		 * another. Each device is watched once.
		 */
		if (i && info->nvml_index == set->devices[i - 1].info.nvml_index)
			continue;
		if (nvml_watch_xids(set->nvml, info->nvml_index) < 0)
			log_debug("device %s: the driver does not report Xids", info->uuid);
		else
			is_any = true;
	}
	if (!is_any)
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return fail(err, ENOMEM, "out of memory");
	agent->xid_watch = w;
	w->job = (struct worker_job){.run = xid_watch_run, .done = xid_watch_done};
	w->agent = agent;
	w->nvml = set->nvml;
	for (uint32_t i = 0; i < set->n; i++) {
		const struct nvml_info *info = &set->devices[i].info;
		struct xid_place *place = &w->places[w->n_places];

		str_copy(place->uuid, sizeof(place->uuid),
			str_from(info->is_mig ? info->parent : info->uuid));
		w->n_places += xid_pci_parse(str_from(info->pci), &place->pci) == 0;
	}
	xid_open_log(w);
	r = worker_new(agent->loop, &w->worker);
	if (r < 0)
		return fail_errno(err, -r, "start a thread");
	worker_submit(w->worker, &w->job);
	return 0;
}

void xid_watch_free(struct agent *agent)
{
	struct xid_watch *w = agent->xid_watch;

	if (!w)
		return;
	atomic_store(&w->is_ending, true);
	worker_free(w->worker);
	fd_close(w->log_fd);
	free(w);
	agent->xid_watch = NULL;
}
