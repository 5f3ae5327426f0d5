/* SPDX-License-Identifier: Apache-2.0 */
/* Times as objects carry them: RFC 3339 in UTC, of seconds (Time) or microseconds (MicroTime). */
#ifndef KUBE_TIME_H
#define KUBE_TIME_H

#include <stdint.h>

#include "base/str.h"

struct kube_time {
	char s[40];
};

/* Of CLOCK_REALTIME. */
struct kube_time kube_time_format(uint64_t real_ns);
struct kube_time kube_time_format_micro(uint64_t real_ns);

/* "2026-01-02T03:04:05Z", with a fraction, with an offset; 1970 and later. -EINVAL. */
int kube_time_parse(struct str text, uint64_t *ret_real_ns);

#endif
