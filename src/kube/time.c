/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats and parses RFC 3339 times in UTC; the process's time zone has no effect. A table gives
 * the width, the separator and the range of each part of a time. timegm() normalizes a leap second
 * and a day that the month lacks, such as February 30. The parser drops digits below a nanosecond.
 * The functions keep no state, so any thread may call them.
 */
#include "kube/time.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"

static struct kube_time kube_time_format_ns(uint64_t real_ns, bool has_micros)
{
	const time_t t = (time_t)(real_ns / NSEC_PER_SEC);
	struct kube_time text = {""};
	struct tm tm;
	size_t n;

	if (!gmtime_r(&t, &tm))
		return text;
	n = strftime(text.s, sizeof(text.s), "%Y-%m-%dT%H:%M:%S", &tm);
	if (has_micros)
		snprintf(text.s + n, sizeof(text.s) - n, ".%06uZ",
			(unsigned int)(real_ns / NSEC_PER_USEC % USEC_PER_SEC));
	else
		snprintf(text.s + n, sizeof(text.s) - n, "Z");
	return text;
}

struct kube_time kube_time_format(uint64_t real_ns)
{
	return kube_time_format_ns(real_ns, false);
}

struct kube_time kube_time_format_micro(uint64_t real_ns)
{
	return kube_time_format_ns(real_ns, true);
}

/* Cuts n digits off the front; -1 if there are fewer. */
static int kube_time_take_digits(struct str *s, size_t n)
{
	int value = 0;

	if (s->n < n)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (s->p[i] < '0' || s->p[i] > '9')
			return -1;
		value = value * 10 + (s->p[i] - '0');
	}
	s->p += n;
	s->n -= n;
	return value;
}

static uint64_t fraction_ns(struct str *s)
{
	uint64_t ns = 0, unit = NSEC_PER_SEC / 10;
	int digit;

	if (!str_skip_prefix(s, STR(".")))
		return 0;
	while ((digit = kube_time_take_digits(s, 1)) >= 0) {
		ns += (uint64_t)digit * unit;
		unit /= 10;
	}
	return ns;
}

/* Parses an offset in seconds east of UTC. INT32_MAX: the text is no offset. */
static int offset_s(struct str *s)
{
	int sign, hours, minutes;

	if (str_is(*s, "Z") || str_is(*s, "z"))
		return 0;
	if (str_skip_prefix(s, STR("+")))
		sign = 1;
	else if (str_skip_prefix(s, STR("-")))
		sign = -1;
	else
		return INT32_MAX;
	hours = kube_time_take_digits(s, 2);
	if (hours < 0 || hours > 23 || !str_skip_prefix(s, STR(":")))
		return INT32_MAX;
	minutes = kube_time_take_digits(s, 2);
	if (minutes < 0 || minutes > 59 || s->n)
		return INT32_MAX;
	return sign * (hours * 3600 + minutes * 60);
}

int kube_time_parse(struct str text, uint64_t *ret_real_ns)
{
	static const struct {
		size_t n;
		const char *behind;
		int min, max;
	} parts[] = {{4, "-", 1970, 2400}, {2, "-", 1, 12}, {2, "T", 1, 31}, {2, ":", 0, 23},
		{2, ":", 0, 59}, {2, "", 0, 60}};
	int v[ARRAY_SIZE(parts)], offset;
	uint64_t ns;
	struct tm tm = {0};
	time_t t;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		v[i] = kube_time_take_digits(&text, parts[i].n);
		if (v[i] < parts[i].min || v[i] > parts[i].max ||
			!str_skip_prefix(&text, str_from(parts[i].behind)))
			return -EINVAL;
	}
	ns = fraction_ns(&text);
	offset = offset_s(&text);
	if (offset == INT32_MAX)
		return -EINVAL;
	tm = (struct tm){.tm_year = v[0] - 1900,
		.tm_mon = v[1] - 1,
		.tm_mday = v[2],
		.tm_hour = v[3],
		.tm_min = v[4],
		.tm_sec = v[5]};
	t = timegm(&tm) - offset;
	if (t < 0)
		return -EINVAL;
	*ret_real_ns = (uint64_t)t * NSEC_PER_SEC + ns;
	return 0;
}
