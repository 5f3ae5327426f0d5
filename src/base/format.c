/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file formats values for people, with integers only except in format_real(). Binary units and
 * time units are tables. Rounding uses 128 bits, so no value overflows. No state; any thread.
 */
#include "base/format.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"

static const char *const binary_units[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};

/* A value in tenths with its unit: "12" or "12.5". */
static struct text format_tenths(uint64_t value, const char *unit)
{
	struct text t;

	if (value % 10)
		snprintf(t.s, sizeof(t.s), "%llu.%llu%s", (unsigned long long)(value / 10),
			(unsigned long long)(value % 10), unit);
	else
		snprintf(t.s, sizeof(t.s), "%llu%s", (unsigned long long)(value / 10), unit);
	return t;
}

/* value / unit in tenths, rounded half up, without overflow. */
static uint64_t in_tenths(uint64_t value, uint64_t unit)
{
	return (uint64_t)(((unsigned __int128)value * 10 + unit / 2) / unit);
}

struct text format_bytes(uint64_t bytes)
{
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(binary_units) &&
		in_tenths(bytes, UINT64_C(1) << (10 * i)) >= 10240)
		i++;
	return format_tenths(in_tenths(bytes, UINT64_C(1) << (10 * i)), binary_units[i]);
}

struct text format_bytes_exact(uint64_t bytes)
{
	struct text t;
	size_t i = 0;

	while (bytes && bytes % 1024 == 0 && i < 5) {
		bytes /= 1024;
		i++;
	}
	snprintf(t.s, sizeof(t.s), "%llu%s", (unsigned long long)bytes, binary_units[i]);
	return t;
}

struct text format_share(uint32_t permille)
{
	struct text t;
	int n;

	n = snprintf(t.s, sizeof(t.s), "%u.%03u", permille / 1000, permille % 1000);
	while (t.s[n - 1] == '0')
		t.s[--n] = 0;
	if (t.s[n - 1] == '.')
		t.s[--n] = 0;
	return t;
}

struct text format_percent(uint32_t permille)
{
	return format_tenths(permille, "%");
}

static const struct {
	uint64_t ns;
	const char *unit;
} time_scales[] = {
	{NSEC_PER_SEC, "s"},
	{NSEC_PER_MSEC, "ms"},
	{NSEC_PER_USEC, "us"},
	{1, "ns"},
};

/* "2m10s": the two largest units of a duration of at least a minute, without a second unit of 0. */
static struct text long_duration(uint64_t seconds)
{
	static const struct {
		uint64_t s;
		char unit;
	} scales[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
	struct text t;
	uint64_t whole, rest;
	size_t i = 0;

	while (seconds < scales[i].s)
		i++;
	whole = seconds / scales[i].s;
	rest = seconds % scales[i].s / scales[i + 1].s;
	if (rest)
		snprintf(t.s, sizeof(t.s), "%llu%c%llu%c", (unsigned long long)whole,
			scales[i].unit, (unsigned long long)rest, scales[i + 1].unit);
	else
		snprintf(t.s, sizeof(t.s), "%llu%c", (unsigned long long)whole, scales[i].unit);
	return t;
}

struct text format_duration(uint64_t ns)
{
	size_t i = 0;

	if (ns == 0)
		return (struct text){"0"};
	if (ns >= 60 * NSEC_PER_SEC)
		return long_duration(ns / NSEC_PER_SEC);
	while (ns < time_scales[i].ns)
		i++;
	/* From 100 on, tenths are omitted: "740us". */
	if (ns >= 100 * time_scales[i].ns)
		return format_tenths(ns / time_scales[i].ns * 10, time_scales[i].unit);
	return format_tenths(in_tenths(ns, time_scales[i].ns), time_scales[i].unit);
}

struct text format_duration_nearest(uint64_t ns)
{
	static const struct {
		uint64_t from_s, last_ns; /* last_ns: the smallest unit shown */
	} steps[] = {{86400, 3600 * NSEC_PER_SEC}, {3600, 60 * NSEC_PER_SEC}, {60, NSEC_PER_SEC}};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		if (ns >= steps[i].from_s * NSEC_PER_SEC)
			return format_duration(clock_add_ns(ns, steps[i].last_ns / 2));
	/* Below a minute tenths are rounded, but 59.96 s would become "60s" instead of "1m". */
	return format_duration(
		ns >= 60 * NSEC_PER_SEC - NSEC_PER_SEC / 20 ? 60 * NSEC_PER_SEC : ns);
}

struct text format_real(double value)
{
	struct text t;

	/* Every whole number that a double of this size holds has at most 19 digits. */
	if (value > -9e18 && value < 9e18 && (double)(int64_t)value == value)
		snprintf(t.s, sizeof(t.s), "%lld", (long long)value);
	else
		snprintf(t.s, sizeof(t.s), "%.9g", value);
	return t;
}

struct text format_hex(const uint8_t *bytes, size_t n)
{
	struct text t = {""};
	size_t i;

	for (i = 0; i < n && 2 * i + 2 < sizeof(t.s); i++)
		snprintf(t.s + 2 * i, 3, "%02x", bytes[i]);
	return t;
}
