/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons of Events and conditions of pods, one word each. reason.def lists them. Pure. */
#ifndef SCHEDULER_REASON_H
#define SCHEDULER_REASON_H

enum reason {
	REASON_NONE,
#define REASON(name, text, type) REASON_##name,
#include "scheduler/reason.def"
#undef REASON
	REASON_COUNT,
};

/* "FailedScheduling"; "" for REASON_NONE. */
const char *reason_name(enum reason reason);
/* Type of the Event, "Normal" or "Warning"; NULL: no Event has that reason. */
const char *reason_event_type(enum reason reason);

#endif
