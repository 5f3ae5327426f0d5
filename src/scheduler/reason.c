/* SPDX-License-Identifier: Apache-2.0 */
/* The table behind reason.h: the text of each reason and the type of its Event. Any thread. */
#include "scheduler/reason.h"

#include <stddef.h>

#define TYPE_CONDITION NULL
#define TYPE_NORMAL "Normal"
#define TYPE_WARNING "Warning"

static const struct {
	const char *name, *event_type;
} reasons[REASON_COUNT] = {
	[REASON_NONE] = {"", NULL},
#define REASON(name, text, type) [REASON_##name] = {text, TYPE_##type},
#include "scheduler/reason.def"
#undef REASON
};

const char *reason_name(enum reason reason)
{
	return reasons[reason].name;
}

const char *reason_event_type(enum reason reason)
{
	return reasons[reason].event_type;
}
