/* SPDX-License-Identifier: Apache-2.0 */
/* Times in objects: RFC 3339 in UTC, in seconds (Time) or microseconds (MicroTime). Any thread. */
#ifndef KUBE_TIME_H
#define KUBE_TIME_H

#include <stdint.h>

#include "base/str.h"

struct kube_time {
	char s[40];
};

/* Formats CLOCK_REALTIME. */
struct kube_time kube_time_format(uint64_t real_ns);
struct kube_time kube_time_format_micro(uint64_t real_ns);

/* Parses "2026-01-02T03:04:05Z", also with a fraction or an offset, from 1970 on. -EINVAL. */
int kube_time_parse(struct str text, uint64_t *ret_real_ns);

#endif
