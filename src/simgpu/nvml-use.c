/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML: the current use of devices: memory, utilisation, processes, clocks, power, errors, events.
 * Memory, utilisation, processes and error counts come from the engine. Power, temperature and
 * clocks are plausible constants.
 */
#include "simgpu/simgpu-nvml.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cuda/nvml-entries.h"

enum {
	FRESH_NS = 1000000000, /* older utilisation reads as 0 */
	TEMPERATURE = 40,
	MEMORY_TEMPERATURE = 45,
	SETS_MAX = 64,
	POLL_MS = 20,
	XID_OFF_THE_BUS = 79,
	XID_DOUBLE_BIT_ERROR = 48,
};

bool nvml_is_fresh(const struct simgpu_state_device *device)
{
	uint64_t sample = atomic_load_explicit(&device->sample_ns, memory_order_relaxed);

	return clock_since_ns(clock_now_ns(), sample) < FRESH_NS;
}

unsigned nvml_processes(unsigned index, struct simgpu_state_proc *to, unsigned room)
{
	const struct simgpu_state *state = nvml_state();
	unsigned n = 0, generation;

	/*
	 * Repeats the reading if slots changed meanwhile. The number of tries is bounded, because
	 * the engine may have died during a change.
	 */
	for (int tries = 0; tries < 100; tries++) {
		uint32_t slots = atomic_load_explicit(&state->proc_slots, memory_order_acquire);

		generation = atomic_load_explicit(&state->generation, memory_order_acquire);
		n = 0;
		for (uint32_t i = 0; i < slots && i < SIMGPU_MAX_STATE_PROCS; i++) {
			const struct simgpu_state_proc *p = &state->procs[i];

			if (atomic_load_explicit(&p->pid, memory_order_acquire) == 0 ||
				p->device != index || p->contexts == 0)
				continue;
			if (n < room)
				memcpy(&to[n], p, sizeof(*p));
			n++;
		}
		atomic_thread_fence(memory_order_acquire);
		if (generation % 2 == 0 &&
			generation ==
				atomic_load_explicit(&state->generation, memory_order_relaxed))
			break;
	}
	return n;
}

/* ---- memory ---- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(memory, NVML_ERROR_INVALID_ARGUMENT);
	memory->total = d->mem_total;
	memory->used = atomic_load_explicit(&d->mem_used, memory_order_relaxed);
	memory->free = memory->total - memory->used;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(
	nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(bar1Memory, NVML_ERROR_INVALID_ARGUMENT);
	*bar1Memory = (nvmlBAR1Memory_t){d->mem_total, d->mem_total - (1 << 20), 1 << 20};
	return NVML_SUCCESS;
}

/* ---- processes ---- */

static nvmlReturn_t list_nothing(nvmlDevice_t device, unsigned *count)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(count, NVML_ERROR_INVALID_ARGUMENT);
	*count = 0;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(
	nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos)
{
	const struct simgpu_state_device *d;
	struct simgpu_state_proc *procs;
	unsigned index, n;
	nvmlReturn_t r;

	NVML_TRY(nvml_device(device, &d, &index));
	NVML_CHECK(infoCount && (infos || *infoCount == 0), NVML_ERROR_INVALID_ARGUMENT);
	procs = calloc(SIMGPU_MAX_STATE_PROCS, sizeof(*procs));
	NVML_CHECK(procs, NVML_ERROR_MEMORY);
	n = nvml_processes(index, procs, SIMGPU_MAX_STATE_PROCS);
	r = nvml_entries_fit(n, infos, infoCount);
	for (unsigned i = 0; r == NVML_SUCCESS && i < n; i++)
		infos[i] = (nvmlProcessInfo_t){
			.pid = procs[i].pid,
			.usedGpuMemory = procs[i].mem_used,
			.gpuInstanceId = 0xffffffff,
			.computeInstanceId = 0xffffffff,
		};
	free(procs);
	return r;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(
	nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos)
{
	return list_nothing(device, infoCount);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(
	nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos)
{
	return list_nothing(device, infoCount);
}

/* ---- utilisation ---- */

static unsigned nvml_percent(const struct simgpu_state_device *d, uint32_t permille)
{
	return nvml_is_fresh(d) ? (permille + 5) / 10 : 0;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(
	nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(utilization, NVML_ERROR_INVALID_ARGUMENT);
	utilization->gpu = nvml_percent(d, atomic_load(&d->sm_permille));
	utilization->memory = nvml_percent(d, atomic_load(&d->mem_permille));
	return NVML_SUCCESS;
}

static uint64_t sample_us(const struct simgpu_state_device *d)
{
	uint64_t age = clock_since_ns(clock_now_ns(), atomic_load(&d->sample_ns));

	return (clock_real_ns() - age) / NSEC_PER_USEC;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
	nvmlProcessUtilizationSample_t *utilization, unsigned int *processSamplesCount,
	unsigned long long lastSeenTimeStamp)
{
	const struct simgpu_state_device *d;
	struct simgpu_state_proc *procs;
	unsigned index, n;
	nvmlReturn_t r;
	uint64_t at;

	NVML_TRY(nvml_device(device, &d, &index));
	NVML_CHECK(processSamplesCount, NVML_ERROR_INVALID_ARGUMENT);
	at = sample_us(d);
	procs = calloc(SIMGPU_MAX_STATE_PROCS, sizeof(*procs));
	NVML_CHECK(procs, NVML_ERROR_MEMORY);
	n = nvml_processes(index, procs, SIMGPU_MAX_STATE_PROCS);
	if (at <= lastSeenTimeStamp)
		n = 0;
	r = nvml_entries_fit(n, utilization, processSamplesCount);
	for (unsigned i = 0; r == NVML_SUCCESS && i < n; i++)
		utilization[i] = (nvmlProcessUtilizationSample_t){
			.pid = procs[i].pid,
			.timeStamp = at,
			.smUtil = nvml_percent(d, procs[i].sm_permille),
		};
	free(procs);
	return nvml_entries_or_none(r, n);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(
	nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *procesesUtilInfo)
{
	return nvml_utilization_info(device, procesesUtilInfo);
}

/* The values are the utilisation in percent, and the sampling period in microseconds. */
NVML_PAIR(GetEncoderUtilization, unsigned int, 0, 100000)
NVML_PAIR(GetDecoderUtilization, unsigned int, 0, 100000)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
	unsigned long long lastSeenTimeStamp, nvmlValueType_t *sampleValType,
	unsigned int *sampleCount, nvmlSample_t *samples)
{
	const struct simgpu_state_device *d;
	uint64_t at;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(sampleValType && sampleCount, NVML_ERROR_INVALID_ARGUMENT);
	NVML_CHECK(type == NVML_GPU_UTILIZATION_SAMPLES || type == NVML_MEMORY_UTILIZATION_SAMPLES,
		NVML_ERROR_NOT_SUPPORTED);
	*sampleValType = NVML_VALUE_TYPE_UNSIGNED_INT;
	at = sample_us(d);
	if (!samples) {
		*sampleCount = 1;
		return NVML_SUCCESS;
	}
	NVML_CHECK(*sampleCount != 0, NVML_ERROR_INVALID_ARGUMENT);
	NVML_CHECK(at > lastSeenTimeStamp, NVML_ERROR_NOT_FOUND);
	*sampleCount = 1;
	samples[0].timeStamp = at;
	samples[0].sampleValue.uiVal = nvml_percent(d,
		type == NVML_GPU_UTILIZATION_SAMPLES ? atomic_load(&d->sm_permille)
						     : atomic_load(&d->mem_permille));
	return NVML_SUCCESS;
}

/* ---- power, temperature, clocks ---- */

/* An idle device draws about a sixth of its limit. */
NVML_VALUE(GetPowerUsage, unsigned int, d->power_limit_mw / 6)
NVML_VALUE(GetPowerManagementLimit, unsigned int, d->power_limit_mw)
NVML_VALUE(GetPowerManagementDefaultLimit, unsigned int, d->power_limit_mw)
NVML_VALUE(GetEnforcedPowerLimit, unsigned int, d->power_limit_mw)
NVML_VALUE(GetPowerManagementMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
NVML_VALUE(GetPersistenceMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
NVML_VALUE(GetComputeMode, nvmlComputeMode_t, NVML_COMPUTEMODE_DEFAULT)
NVML_VALUE(GetPerformanceState, nvmlPstates_t, NVML_PSTATE_0)
NVML_VALUE(GetPowerState, nvmlPstates_t, NVML_PSTATE_0)
NVML_VALUE(GetDefaultEccMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
NVML_VALUE(GetAccountingMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
NVML_VALUE(GetCurrentClocksThrottleReasons, unsigned long long, 0)
NVML_VALUE(GetCurrentClocksEventReasons, unsigned long long, 0)
NVML_VALUE(GetSupportedClocksThrottleReasons, unsigned long long, 0)
NVML_VALUE(GetSupportedClocksEventReasons, unsigned long long, 0)
NVML_VALUE(GetSupportedEventTypes, unsigned long long,
	nvmlEventTypeDoubleBitEccError | nvmlEventTypeXidCriticalError)
NVML_VALUE(GetTotalEnergyConsumption, unsigned long long,
	clock_boot_ns() / NSEC_PER_MSEC * d->power_limit_mw / 6 / 1000)
NVML_PAIR(GetPowerManagementLimitConstraints, unsigned int, d->power_limit_mw / 7 * 2,
	d->power_limit_mw)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(
	nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned int *temp)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(temp && sensorType == NVML_TEMPERATURE_GPU, NVML_ERROR_INVALID_ARGUMENT);
	*temp = TEMPERATURE;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(
	nvmlDevice_t device, nvmlTemperature_t *temperature)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK_VERSION(temperature, Temperature, 1);
	temperature->temperature = TEMPERATURE;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(
	nvmlDevice_t device, nvmlTemperatureThresholds_t thresholdType, unsigned int *temp)
{
	static const unsigned thresholds[] = {
		[NVML_TEMPERATURE_THRESHOLD_SHUTDOWN] = 92,
		[NVML_TEMPERATURE_THRESHOLD_SLOWDOWN] = 89,
		[NVML_TEMPERATURE_THRESHOLD_MEM_MAX] = 95,
		[NVML_TEMPERATURE_THRESHOLD_GPU_MAX] = 85,
	};
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(temp, NVML_ERROR_INVALID_ARGUMENT);
	NVML_CHECK((unsigned)thresholdType < sizeof(thresholds) / sizeof(thresholds[0]),
		NVML_ERROR_NOT_SUPPORTED);
	*temp = thresholds[thresholdType];
	return NVML_SUCCESS;
}

static nvmlReturn_t clock_of(nvmlDevice_t device, nvmlClockType_t type, unsigned *ret)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(ret && (unsigned)type < NVML_CLOCK_COUNT, NVML_ERROR_INVALID_ARGUMENT);
	*ret = (type == NVML_CLOCK_MEM ? d->mem_clock_khz : d->clock_khz) / 1000;
	return NVML_SUCCESS;
}

#define CLOCK(name) \
	NVML_EXPORT nvmlReturn_t nvmlDevice##name( \
		nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock) \
	{ \
		return clock_of(device, type, clock); \
	}

CLOCK(GetClockInfo)
CLOCK(GetMaxClockInfo)
CLOCK(GetApplicationsClock)
CLOCK(GetDefaultApplicationsClock)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t clockType,
	nvmlClockId_t clockId, unsigned int *clockMHz)
{
	return clock_of(device, clockType, clockMHz);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(
	nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *value)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(value && (unsigned)counter < NVML_PCIE_UTIL_COUNT, NVML_ERROR_INVALID_ARGUMENT);
	*value = 0;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	return mode == NVML_FEATURE_ENABLED ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* The chassis cools the modules, so they have no fans. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int *numFans)
{
	return list_nothing(device, numFans);
}

/* ---- errors ---- */

NVML_PAIR(GetEccMode, nvmlEnableState_t, NVML_FEATURE_ENABLED, NVML_FEATURE_ENABLED)

static unsigned long long ecc_count(const struct simgpu_state_device *d, nvmlMemoryErrorType_t type)
{
	return type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? atomic_load(&d->ecc_uncorrected) : 0;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device,
	nvmlMemoryErrorType_t errorType, nvmlEccCounterType_t counterType,
	unsigned long long *eccCounts)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(eccCounts, NVML_ERROR_INVALID_ARGUMENT);
	*eccCounts = ecc_count(d, errorType);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device,
	nvmlMemoryErrorType_t errorType, nvmlEccCounterType_t counterType,
	nvmlEccErrorCounts_t *eccCounts)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(eccCounts, NVML_ERROR_INVALID_ARGUMENT);
	*eccCounts = (nvmlEccErrorCounts_t){.deviceMemory = ecc_count(d, errorType)};
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device,
	nvmlMemoryErrorType_t errorType, nvmlEccCounterType_t counterType,
	nvmlMemoryLocation_t locationType, unsigned long long *count)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(count, NVML_ERROR_INVALID_ARGUMENT);
	*count = locationType == NVML_MEMORY_LOCATION_DEVICE_MEMORY ? ecc_count(d, errorType) : 0;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrRows,
	unsigned int *uncRows, unsigned int *isPending, unsigned int *failureOccurred)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(
		corrRows && uncRows && isPending && failureOccurred, NVML_ERROR_INVALID_ARGUMENT);
	*corrRows = *isPending = *failureOccurred = 0;
	*uncRows = (unsigned)atomic_load(&d->ecc_uncorrected);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device,
	nvmlPageRetirementCause_t cause, unsigned int *pageCount, unsigned long long *addresses)
{
	return list_nothing(device, pageCount);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetViolationStatus(
	nvmlDevice_t device, nvmlPerfPolicyType_t perfPolicyType, nvmlViolationTime_t *violTime)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(violTime, NVML_ERROR_INVALID_ARGUMENT);
	*violTime = (nvmlViolationTime_t){.referenceTime = clock_real_ns() / NSEC_PER_USEC};
	return NVML_SUCCESS;
}

/* ---- fields ---- */

static void nvml_fill_field(const struct simgpu_state_device *d, nvmlFieldValue_t *f)
{
	unsigned links = 0;

	for (unsigned i = 0; i < SIMGPU_MAX_DEVICES; i++)
		links += d->nvlinks[i];
	f->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
	f->value.ullVal = 0;
	switch (f->fieldId) {
	case NVML_FI_DEV_ECC_CURRENT:
	case NVML_FI_DEV_ECC_PENDING: f->value.uiVal = 1; return;
	case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
	case NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
	case NVML_FI_DEV_ECC_DBE_VOL_DEV:
	case NVML_FI_DEV_ECC_DBE_AGG_DEV:
		f->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
		f->value.ullVal = atomic_load(&d->ecc_uncorrected);
		return;
	case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
	case NVML_FI_DEV_ECC_SBE_AGG_TOTAL:
	case NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL:
	case NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL:
	case NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL:
	case NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL:
		f->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
		return;
	case NVML_FI_DEV_RETIRED_SBE:
	case NVML_FI_DEV_RETIRED_DBE:
	case NVML_FI_DEV_RETIRED_PENDING: return;
	case NVML_FI_DEV_MEMORY_TEMP: f->value.uiVal = MEMORY_TEMPERATURE; return;
	case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
		f->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
		f->value.ullVal = clock_boot_ns() / NSEC_PER_MSEC * d->power_limit_mw / 6 / 1000;
		return;
	case NVML_FI_DEV_NVLINK_LINK_COUNT: f->value.uiVal = links; return;
	case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
		f->value.uiVal = atomic_load(&d->recovery);
		return;
	default: f->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
	}
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(
	nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(values && valuesCount > 0, NVML_ERROR_INVALID_ARGUMENT);
	for (int i = 0; i < valuesCount; i++) {
		values[i].timestamp = (long long)(clock_real_ns() / NSEC_PER_USEC);
		values[i].latencyUsec = 0;
		values[i].nvmlReturn = NVML_SUCCESS;
		nvml_fill_field(d, &values[i]);
	}
	return NVML_SUCCESS;
}

/* ---- events ---- */

struct event_set {
	bool used;
	unsigned long long types[SIMGPU_MAX_DEVICES];
	uint64_t ecc[SIMGPU_MAX_DEVICES]; /* the values that events have reported */
	uint64_t xids[SIMGPU_MAX_DEVICES];
	bool lost[SIMGPU_MAX_DEVICES];
};

static pthread_mutex_t sets_lock = PTHREAD_MUTEX_INITIALIZER;
static struct event_set sets[SETS_MAX];

static struct event_set *nvml_event_set(nvmlEventSet_t handle)
{
	uintptr_t number = (uintptr_t)handle - 1;

	return number < SETS_MAX && sets[number].used ? &sets[number] : NULL;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	nvmlReturn_t r = NVML_ERROR_INSUFFICIENT_RESOURCES;

	NVML_CHECK(nvml_state(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(set, NVML_ERROR_INVALID_ARGUMENT);
	pthread_mutex_lock(&sets_lock);
	for (uintptr_t i = 0; i < SETS_MAX && r != NVML_SUCCESS; i++) {
		if (sets[i].used)
			continue;
		sets[i] = (struct event_set){.used = true};
		*set = (nvmlEventSet_t)(i + 1);
		r = NVML_SUCCESS;
	}
	pthread_mutex_unlock(&sets_lock);
	return r;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	struct event_set *s;

	NVML_CHECK(nvml_state(), NVML_ERROR_UNINITIALIZED);
	pthread_mutex_lock(&sets_lock);
	s = nvml_event_set(set);
	if (s)
		s->used = false;
	pthread_mutex_unlock(&sets_lock);
	return s ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(
	nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set)
{
	unsigned long long supported = nvmlEventTypeDoubleBitEccError |
		nvmlEventTypeXidCriticalError;
	const struct simgpu_state_device *d;
	struct event_set *s;
	unsigned index;

	NVML_TRY(nvml_device(device, &d, &index));
	NVML_CHECK((eventTypes & ~supported) == 0, NVML_ERROR_NOT_SUPPORTED);
	pthread_mutex_lock(&sets_lock);
	s = nvml_event_set(set);
	if (s) {
		s->types[index] |= eventTypes;
		s->ecc[index] = atomic_load(&d->ecc_uncorrected);
		s->xids[index] = atomic_load(&d->xids);
		s->lost[index] = d->lost;
	}
	pthread_mutex_unlock(&sets_lock);
	return s ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* Returns one event that has happened since the last call. */
static bool next_event(struct event_set *s, nvmlEventData_t *data)
{
	const struct simgpu_state *state = nvml_state();

	for (unsigned i = 0; state && i < state->device_count; i++) {
		const struct simgpu_state_device *d = &state->devices[i];
		uint64_t ecc = atomic_load(&d->ecc_uncorrected), xids = atomic_load(&d->xids);

		*data = (nvmlEventData_t){.device = nvml_handle(i),
			.gpuInstanceId = 0xffffffff,
			.computeInstanceId = 0xffffffff};
		s->lost[i] = s->lost[i] && d->lost;
		if (d->lost && !s->lost[i] && (s->types[i] & nvmlEventTypeXidCriticalError)) {
			s->lost[i] = true;
			data->eventType = nvmlEventTypeXidCriticalError;
			data->eventData = XID_OFF_THE_BUS;
			return true;
		}
		if (xids != s->xids[i] && (s->types[i] & nvmlEventTypeXidCriticalError)) {
			s->xids[i] = xids;
			data->eventType = nvmlEventTypeXidCriticalError;
			data->eventData = xids & UINT16_MAX;
			return true;
		}
		if (ecc > s->ecc[i] && s->types[i] != 0) {
			s->ecc[i] = ecc;
			data->eventType = s->types[i] & nvmlEventTypeDoubleBitEccError
				? nvmlEventTypeDoubleBitEccError
				: nvmlEventTypeXidCriticalError;
			data->eventData = XID_DOUBLE_BIT_ERROR;
			return true;
		}
	}
	return false;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(
	nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms)
{
	uint64_t deadline = clock_add_ns(clock_now_ns(), timeoutms * NSEC_PER_MSEC);

	NVML_CHECK(nvml_state(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(data, NVML_ERROR_INVALID_ARGUMENT);
	for (;;) {
		uint64_t now = clock_now_ns();
		struct event_set *s;
		bool happened;

		pthread_mutex_lock(&sets_lock);
		s = nvml_event_set(set);
		happened = s && next_event(s, data);
		pthread_mutex_unlock(&sets_lock);
		NVML_CHECK(s, NVML_ERROR_INVALID_ARGUMENT);
		if (happened)
			return NVML_SUCCESS;
		if (now >= deadline)
			return NVML_ERROR_TIMEOUT;
		clock_sleep_until_ns(now + POLL_MS * NSEC_PER_MSEC < deadline
				? now + POLL_MS * NSEC_PER_MSEC
				: deadline);
	}
}
