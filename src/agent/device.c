/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds devices: see device.h. A simulated machine uses the same code with another
 * libnvidia-ml.so.1, which starts the simulator's engine and keeps it as long as the library is
 * open.
 */
#include "agent/device.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/xid.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "simgpu/simgpu-config.h"
#include "simgpu/simgpu-proto.h"

/* The simulated device that the daemon shares out on a machine without devices. */
#define DEFAULT_SIMULATION "1xH200-141Gi"
/* Longest wait for the end of a simulated GPU's engine, which ends linger= after its last user. */
#define LINGER_MAX_NS (5 * NSEC_PER_SEC)
#define SAID_MAX (64u << 10)
/* Used until a context is measured: about a CUDA 12 context on a large device. */
#define CONTEXT_GUESS_BYTES (512ull << 20)

void device_parse_uuid(const char *text, uint8_t ret_uuid[static 16])
{
	struct str s = str_from(text);
	uint8_t uuid[16];
	size_t n = 0;
	uint64_t h;

	if (!str_skip_prefix(&s, STR("GPU-")))
		str_skip_prefix(&s, STR("MIG-"));
	for (size_t i = 0; i < s.n; i++) {
		int c = tolower((unsigned char)s.p[i]);
		int v = isdigit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

		if (c == '-')
			continue;
		if (v < 0 || n >= 32) {
			n = 0;
			break;
		}
		uuid[n / 2] = (uint8_t)(n % 2 ? uuid[n / 2] | v : v << 4);
		n++;
	}
	if (n != 32) { /* e.g. "MIG-GPU-uuid/7/0" of older drivers */
		h = str_hash(str_from(text));
		memcpy(uuid, &h, 8);
		h = h * 0x9e3779b97f4a7c15u + 1;
		memcpy(uuid + 8, &h, 8);
	}
	memcpy(ret_uuid, uuid, 16);
}

static bool has_sim_libs(const char *folder)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/libnvidia-ml.so.1", folder);
	return access(path, R_OK) == 0;
}

/* Searches the build folder or installed tree around this program, and then the install prefix. */
static int find_sim_libs(char *ret, size_t size, struct error *err)
{
	static const char *const beside[] = {
		"sim",
		"../simgpu",
		"../" DIVVY_LIBDIR "/divvy/sim",
		"../lib/divvy/sim",
		"../../lib/divvy/sim",
		"../libexec/divvy/sim",
	};
	const char *set = getenv("DIVVY_SIM_LIBS");
	char exe[PATH_MAX / 2], path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	_cleanup_free_ char *full = NULL;
	char *slash;

	if (set && has_sim_libs(set))
		return str_copy(ret, size, str_from(set));
	if (n > 0) {
		exe[n] = '\0';
		slash = strrchr(exe, '/');
		if (slash)
			*slash = '\0';
		for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
			snprintf(path, sizeof(path), "%s/%s", exe, beside[i]);
			if (!has_sim_libs(path))
				continue;
			full = realpath(path, NULL);
			return str_copy(ret, size, str_from(full ? full : path));
		}
	}
	if (has_sim_libs(DIVVY_SIM_FOLDER))
		return str_copy(ret, size, str_from(DIVVY_SIM_FOLDER));
	return fail(err, ENOENT,
		"the simulated driver is missing: no libnvidia-ml.so.1 in '%s' or beside "
		"divvyd; set DIVVY_SIM_LIBS to its folder",
		DIVVY_SIM_FOLDER);
}

/* Reads what the simulated GPU's engine will read: errors are then in the daemon's own message. */
static int load_config(const struct device_set *set, const char *simulate,
	struct simgpu_config *ret_config, struct error *err)
{
	int r = simgpu_config_load(ret_config, set->sim_dir, simulate, err);

	return r < 0 ? fail_within(err, r, "simulated device") : 0;
}

/*
 * Whether the running engine of the simulated GPU has the requested devices. A former engine serves
 * while it has users, and for its linger time, whatever is requested now.
 */
static bool is_as_requested(struct nvml *nvml, const struct simgpu_config *config)
{
	_cleanup_free_ struct nvml_info *infos = calloc(ARBITER_DEVICES, sizeof(*infos));
	int n = infos ? nvml_list(nvml, infos, ARBITER_DEVICES, NULL) : -ENOMEM;

	if (n != (int)config->n)
		return false;
	for (int i = 0; i < n; i++)
		if (strcmp(infos[i].model, config->devices[i].name) != 0 ||
			infos[i].memory_bytes != config->devices[i].mem_bytes)
			return false;
	return true;
}

/* Waits a limited time until the ending engine of the simulated GPU has removed its socket. */
static void await_end_of_engine(const struct device_set *set, const struct simgpu_config *config)
{
	uint64_t wait = MIN(config->linger_ns + NSEC_PER_SEC, LINGER_MAX_NS);
	uint64_t deadline = clock_now_ns() + wait;
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/" SIMGPU_FILE_SOCKET, set->sim_dir);
	while (access(path, F_OK) == 0 && clock_now_ns() < deadline)
		clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
}

/*
 * NVML only says that there is no device. The simulated GPU's engine writes its reason to the
 * stderr that it inherits, so the daemon collects that text and passes other lines on.
 */
static int open_nvml(struct device_set *set, struct error *err)
{
	_cleanup_close_ int said = memfd_new("divvyd-engine-says", 0);
	_cleanup_close_ int kept = said < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	_cleanup_buf_ struct buf text = BUF_INIT(SAID_MAX);
	struct str line;
	int r;

	if (kept >= 0)
		dup2(said, STDERR_FILENO);
	r = nvml_open(set->sim_libs, &set->nvml, err);
	if (kept < 0)
		return r;
	dup2(kept, STDERR_FILENO);
	if (lseek(said, 0, SEEK_SET) < 0 || fd_read_all(said, &text) < 0)
		return r;
	line = str_last_line(buf_str(&text));
	str_skip_prefix(&line, STR("divvy-sim-engine: "));
	str_skip_prefix(&line, STR("error: "));
	if (r < 0 && line.n)
		return fail(err, -r, "simulated device: %.*s", STR_ARG(line));
	fd_write_all(STDERR_FILENO, text.p, text.n);
	return r;
}

static int open_engine(
	struct device_set *set, const char *simulate, bool is_exact, struct error *err)
{
	struct simgpu_config config;
	int r = load_config(set, simulate, &config, err);

	r = r < 0 ? r : open_nvml(set, err);
	if (r < 0 || !is_exact || is_as_requested(set->nvml, &config))
		return r;
	nvml_close(TAKE_PTR(set->nvml));
	await_end_of_engine(set, &config);
	r = open_nvml(set, err);
	if (r < 0 || is_as_requested(set->nvml, &config))
		return r;
	return fail(err, EBUSY,
		"--simulate %s: programs still use other simulated devices of '%s'; stop them, "
		"or set DIVVY_SIM to another folder",
		simulate, set->sim_dir);
}

/* is_exact: accepts only these devices, and not those of a running engine. */
static int open_simulated(struct device_set *set, const char *simulate, bool is_exact,
	const char *runtime_dir, struct error *err)
{
	const char *dir = getenv("DIVVY_SIM");
	int r;

	if (dir && *dir)
		snprintf(set->sim_dir, sizeof(set->sim_dir), "%s", dir);
	else
		snprintf(set->sim_dir, sizeof(set->sim_dir), "%s/sim", runtime_dir);
	r = find_sim_libs(set->sim_libs, sizeof(set->sim_libs), err);
	if (r < 0)
		return r;
	r = folder_make(set->sim_dir, 0755, err);
	if (r < 0)
		return r;
	if (setenv("DIVVY_SIM", set->sim_dir, 1) || setenv("DIVVY_SIM_DEVICES", simulate, 1))
		return fail(err, ENOMEM, "out of memory");
	set->is_simulated = true;
	return open_engine(set, simulate, is_exact, err);
}

static int open_driver(
	struct device_set *set, const struct device_params *params, struct error *err)
{
	const char *driver = getenv("DIVVY_DRIVER");
	struct error why;
	int r;

	if (params->simulate)
		return open_simulated(set, params->simulate, true, params->runtime_dir, err);
	r = nvml_open(driver && *driver ? driver : NULL, &set->nvml, &why);
	if (r != -ENOENT && r != -ENODEV) {
		if (r < 0)
			*err = why;
		return r;
	}
	if (params->may_be_none) {
		log_info("%s; no device to share", why.msg);
		return 0;
	}
	log_info("%s; sharing a simulated GPU (%s)", why.msg, DEFAULT_SIMULATION);
	return open_simulated(set, DEFAULT_SIMULATION, false, params->runtime_dir, err);
}

/* ---- faults ---- */

static const struct {
	const char *key;
	const char *what; /* words that follow the device's name; NULL: device.fault_note */
	bool is_no_execute;
} faults[DEVICE_FAULTS] = {
	[DEVICE_LOST] = {"divvy.gpu/lost", "is lost: the driver cannot reach it any more", true},
	[DEVICE_XID] = {"divvy.gpu/xid", NULL, true},
	[DEVICE_RECOVERY] = {"divvy.gpu/recovery", NULL, true},
	[DEVICE_SILENT] = {"divvy.gpu/silent", "does not answer", false},
};

/* Whether the driver asks for a recovery. */
static bool asks_recovery(enum nvml_recovery recovery)
{
	return recovery != NVML_RECOVERY_NONE && recovery != NVML_RECOVERY_UNKNOWN;
}

/* Values of the taint, and what an administrator has to do. */
static const struct {
	const char *value, *what;
} recoveries[] = {
	[NVML_RECOVERY_RESET] = {"reset", "a reset of the device"},
	[NVML_RECOVERY_REBOOT] = {"reboot", "a restart of the machine"},
	[NVML_RECOVERY_DRAIN_P2P] = {"drain-p2p", "the end of all programs that use its links"},
	[NVML_RECOVERY_DRAIN_AND_RESET] = {"drain-and-reset",
		"a reset after the end of its programs"},
};

bool device_has_fault(const struct device *device, enum device_fault fault)
{
	switch (fault) {
	case DEVICE_LOST: return device->is_lost;
	case DEVICE_XID: return device->xid != 0;
	case DEVICE_RECOVERY: return asks_recovery(device->recovery);
	case DEVICE_SILENT: return device->n_silent >= DEVICE_SILENT_MAX;
	case DEVICE_FAULTS: break;
	}
	return false;
}

/* Returns DEVICE_FAULTS if the device has none. */
static enum device_fault device_gravest_fault(const struct device *device)
{
	enum device_fault fault = 0;

	while (fault < DEVICE_FAULTS && !device_has_fault(device, fault))
		fault++;
	return fault;
}

bool device_is_faulty(const struct device *device)
{
	return device_gravest_fault(device) < DEVICE_FAULTS;
}

const char *device_fault_text(const struct device *device)
{
	const enum device_fault fault = device_gravest_fault(device);

	return fault == DEVICE_FAULTS ? NULL
		: faults[fault].what  ? faults[fault].what
				      : device->fault_note;
}

bool device_taint(
	const struct device *device, enum device_fault fault, struct device_taint *ret_taint)
{
	if (!device_has_fault(device, fault))
		return false;
	*ret_taint = (struct device_taint){.key = faults[fault].key,
		.is_no_execute = faults[fault].is_no_execute,
		.since_ns = device->fault_since_ns[fault]};
	if (fault == DEVICE_XID) {
		snprintf(ret_taint->value, sizeof(ret_taint->value), "%" PRIu64, device->xid);
		ret_taint->is_no_execute = xid_kind(device->xid) == XID_DEVICE;
	} else if (fault == DEVICE_RECOVERY) {
		snprintf(ret_taint->value, sizeof(ret_taint->value), "%s",
			recoveries[device->recovery].value);
		ret_taint->is_no_execute = device->recovery != NVML_RECOVERY_DRAIN_P2P;
	}
	return true;
}

/* Call after each change of a fault. */
static void device_faults_changed(struct device *device, uint64_t real_ns)
{
	for (enum device_fault fault = 0; fault < DEVICE_FAULTS; fault++)
		if (!device_has_fault(device, fault))
			device->fault_since_ns[fault] = 0;
		else if (!device->fault_since_ns[fault])
			device->fault_since_ns[fault] = real_ns;
	if (device->xid)
		snprintf(device->fault_note, sizeof(device->fault_note),
			"had Xid %" PRIu64 " (%s), which no program causes", device->xid,
			xid_text(device->xid));
	else if (device_has_fault(device, DEVICE_RECOVERY))
		snprintf(device->fault_note, sizeof(device->fault_note),
			"needs %s, as the driver reports", recoveries[device->recovery].what);
}

/*
 * An Xid without a UUID may concern any device. An Xid of a parent device concerns all its MIG
 * instances, or only the instance that the Xid names.
 */
static bool device_is_xid_of(const struct nvml_xid *xid, const struct nvml_info *info)
{
	if (!xid->uuid[0] || !strcmp(info->uuid, xid->uuid))
		return true;
	return info->is_mig && !strcmp(info->parent, xid->uuid) &&
		(xid->gpu_instance == NVML_NO_INSTANCE || info->gpu_instance == NVML_NO_INSTANCE ||
			xid->gpu_instance == info->gpu_instance);
}

uint64_t device_of_xid(const struct device_set *set, const struct nvml_xid *xid)
{
	uint64_t devices = 0;

	for (uint32_t i = 0; i < set->n; i++)
		devices |= (uint64_t)device_is_xid_of(xid, &set->devices[i].info) << i;
	return devices;
}

uint64_t device_note_xid(struct device_set *set, const struct nvml_xid *xid, uint64_t real_ns)
{
	const enum xid_kind kind = xid_kind(xid->xid);
	const uint64_t devices = device_of_xid(set, xid);
	uint64_t faulty = 0;

	for (uint32_t i = 0; i < set->n; i++) {
		struct device *d = &set->devices[i];

		if (!(devices & 1ull << i))
			continue;
		d->n_xids++;
		d->n_program_xids += kind == XID_PROGRAM;
		d->has_asked_recovery |= asks_recovery(xid->recovery);
		if (d->xid || !xid->xid || kind == XID_PROGRAM || kind == XID_NOTICE)
			continue;
		d->xid = xid->xid;
		d->has_asked_recovery = asks_recovery(xid->recovery);
		device_faults_changed(d, real_ns);
		faulty |= 1ull << i;
	}
	return faulty;
}

bool device_clear(struct device *device)
{
	const bool had_xid = device->xid != 0;

	device->xid = 0;
	device_faults_changed(device, clock_real_ns());
	return had_xid;
}

void device_note_answer(struct device *device, const struct device_answer *answer, uint64_t real_ns)
{
	const bool has_returned = device->is_lost && answer->is_answered && !answer->is_lost;

	/* A query without an answer shows nothing about a lost device. */
	if (answer->is_answered || answer->is_lost)
		device->is_lost = answer->is_lost;
	device->n_silent = answer->is_answered || answer->is_lost ? 0 : device->n_silent + 1;
	if (answer->is_answered) {
		/* A driver that has asked for a recovery has only failed to answer this time. */
		if (answer->recovery != NVML_RECOVERY_UNKNOWN || !asks_recovery(device->recovery))
			device->recovery = answer->recovery;
		device->has_asked_recovery |= asks_recovery(answer->recovery);
		/*
		 * Only a driver that has asked for a recovery shows by NVML_RECOVERY_NONE that the
		 * device has had the recovery.
		 */
		if (has_returned ||
			(device->has_asked_recovery && !answer->is_before_xid &&
				device->recovery == NVML_RECOVERY_NONE))
			device->xid = 0;
	}
	device_faults_changed(device, real_ns);
}

const char *device_note(const struct device *device)
{
	const char *fault = device_fault_text(device);

	return fault ? fault : device->note;
}

static void set_note(struct device *device)
{
	const struct nvml_info *info = &device->info;

	if (!strcmp(info->compute_mode, "prohibited"))
		str_copy(device->note, sizeof(device->note),
			STR("compute mode prohibited: no program can use the device; set "
			    "nvidia-smi -c DEFAULT"));
	else if (!strcmp(info->compute_mode, "exclusive"))
		str_copy(device->note, sizeof(device->note),
			STR("compute mode exclusive: one process at a time; to share the "
			    "device, set nvidia-smi -c DEFAULT"));
	else if (info->has_mps)
		str_copy(device->note, sizeof(device->note),
			STR("MPS runs: its clients use the device at once, so shares hold "
			    "only as far as their work completes in time"));
	else if (info->is_mig)
		str_copy(device->note, sizeof(device->note),
			STR("a MIG instance, which divvy shares like a device"));
}

/* Asks NVML for the links once, because the answer may take long and links never change. */
static int find_links(struct device_set *set)
{
	const uint32_t n = set->n;

	set->link = malloc((size_t)n * n + 1);
	if (!set->link)
		return -ENOMEM;
	for (uint32_t a = 0; a < n; a++)
		for (uint32_t b = 0; b < n; b++)
			set->link[a * n + b] = (uint8_t)(a == b
					? NVML_LINK_NONE
					: nvml_link(set->nvml, set->devices[a].info.handle,
						  set->devices[b].info.handle));
	return 0;
}

enum nvml_link device_link(const struct device_set *set, uint32_t a, uint32_t b)
{
	return (enum nvml_link)set->link[a * set->n + b];
}

int device_set_open(
	const struct device_params *params, struct device_set **ret_set, struct error *err)
{
	_cleanup_free_ struct nvml_info *infos = calloc(ARBITER_DEVICES, sizeof(*infos));
	struct device_set *set = calloc(1, sizeof(*set));
	int r, n = 0;

	if (!infos || !set) {
		free(set);
		return fail(err, ENOMEM, "out of memory");
	}
	r = open_driver(set, params, err);
	if (r >= 0 && set->nvml)
		r = n = nvml_list(set->nvml, infos, ARBITER_DEVICES, err);
	if (r < 0)
		goto out;
	set->devices = calloc((size_t)n + 1, sizeof(*set->devices));
	if (!set->devices) {
		r = fail(err, ENOMEM, "out of memory");
		goto out;
	}
	for (int i = 0; i < n; i++) {
		struct device *d = &set->devices[set->n];

		*d = (struct device){.index = set->n, .info = infos[i], .lock = LOCK_NONE};
		device_parse_uuid(d->info.uuid, d->uuid);
		d->context_guess_bytes = MIN(CONTEXT_GUESS_BYTES, d->info.usable_bytes / 16);
		d->context_bytes = d->context_guess_bytes;
		set_note(d);
		r = ledger_new(d->info.usable_bytes, params->oversubscribe_permille, &d->ledger);
		if (r < 0)
			goto out;
		set->n++;
	}
	r = find_links(set);
	if (r < 0)
		goto out;
	*ret_set = set;
	return 0;
out:
	device_set_close(set);
	return r;
}

int device_set_lock(struct device_set *set, const char *socket, bool is_forced,
	struct lock_owner *ret_owner, struct error *err)
{
	struct lock_folders folders = {.shared = {set->sim_dir}};

	if (!set->is_simulated)
		lock_folders_real(&folders);
	for (uint32_t i = 0; i < set->n; i++) {
		struct device *d = &set->devices[i];
		int r = lock_take(
			&folders, d->info.uuid, socket, is_forced, &d->lock, ret_owner, err);

		if (r < 0) {
			while (i--)
				lock_release(&set->devices[i].lock);
			return r;
		}
	}
	return 0;
}

void device_set_close(struct device_set *set)
{
	if (!set)
		return;
	for (uint32_t i = 0; i < set->n; i++) {
		lock_release(&set->devices[i].lock);
		ledger_free(set->devices[i].ledger);
	}
	nvml_close(set->nvml);
	free(set->link);
	free(set->devices);
	free(set);
}

struct device *device_find(const struct device_set *set, const char *uuid)
{
	for (uint32_t i = 0; i < set->n; i++)
		if (!strcmp(set->devices[i].info.uuid, uuid))
			return &set->devices[i];
	return NULL;
}

const char *device_host_access(const struct device *device)
{
	switch (device->info.host_access) {
	case NVML_HOST_ACCESS_HMM: return "HMM";
	case NVML_HOST_ACCESS_ATS: return "ATS";
	default: return NULL;
	}
}
