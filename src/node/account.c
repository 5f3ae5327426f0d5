/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one row for each pair of day and namespace, sorted by day. The oldest rows come first, so
 * drop_first() removes them by one move. Days are ISO dates, so strcmp() orders them. If the clock
 * moves back, accounts_find_or_add() inserts the row before those of later days. accounts_load()
 * adds to rows that exist already, and only accounts_add() drops rows by age.
 */
#include "node/account.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/str.h"
#include "kube/time.h"

void accounts_done(struct accounts *a)
{
	free(a->v);
	*a = (struct accounts){.v = NULL};
}

static void day_of(uint64_t real_ns, char ret[static ACCOUNT_DAY])
{
	const struct kube_time time = kube_time_format(real_ns);

	str_copy(ret, ACCOUNT_DAY, (struct str){time.s, ACCOUNT_DAY - 1});
}

/* The rows are sorted by day, so the oldest ones come first. */
static void drop_first(struct accounts *a, uint32_t n)
{
	memmove(a->v, a->v + n, (a->n - n) * sizeof(*a->v));
	a->n -= n;
}

static void drop_old(struct accounts *a, uint64_t real_ns)
{
	const uint64_t kept_ns = UINT64_C(86400) * (ACCOUNT_DAYS - 1) * NSEC_PER_SEC;
	char oldest[ACCOUNT_DAY];
	uint32_t n = 0;

	day_of(real_ns - (kept_ns < real_ns ? kept_ns : real_ns), oldest);
	while (n < a->n && strcmp(a->v[n].day, oldest) < 0)
		n++;
	if (n)
		drop_first(a, n);
}

static int accounts_find_or_add(
	struct accounts *a, const char *day, const char *space, struct account **ret)
{
	uint32_t at = a->n;

	for (uint32_t i = 0; i < a->n; i++)
		if (!strcmp(a->v[i].day, day) && !strcmp(a->v[i].space, space)) {
			*ret = &a->v[i];
			return 0;
		}
	if (a->n == ACCOUNT_ROWS_MAX)
		drop_first(a, 1);
	if (array_grow(&a->v, &a->room, a->n + 1ul, sizeof(*a->v)) < 0)
		return -ENOMEM;
	/* After a clock was set back, the day may not be the last one. */
	for (at = a->n; at && strcmp(a->v[at - 1].day, day) > 0; at--)
		a->v[at] = a->v[at - 1];
	a->n++;
	a->v[at] = (struct account){.asked_ns = 0};
	str_copy(a->v[at].day, sizeof(a->v[at].day), str_from(day));
	str_copy(a->v[at].space, sizeof(a->v[at].space), str_from(space));
	*ret = &a->v[at];
	return 0;
}

int accounts_add(
	struct accounts *a, uint64_t real_ns, const char *space, const struct account *more)
{
	struct account *row;
	char day[ACCOUNT_DAY];
	int r;

	day_of(real_ns, day);
	r = accounts_find_or_add(a, day, space, &row);
	if (r < 0)
		return r;
	row->asked_ns += more->asked_ns;
	row->granted_ns += more->granted_ns;
	row->used_ns += more->used_ns;
	drop_old(a, real_ns);
	return 0;
}

json_t *accounts_json(const struct accounts *a)
{
	json_t *list = json_array();

	for (uint32_t i = 0; list && i < a->n; i++) {
		const struct account *row = &a->v[i];
		const json_int_t requested_ms = (json_int_t)(row->asked_ns / NSEC_PER_MSEC);

		/* askedMilliseconds is the old name, for one release. */
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "day", row->day, "namespace",
				row->space, "requestedMilliseconds", requested_ms,
				"askedMilliseconds", requested_ms, "grantedMilliseconds",
				(json_int_t)(row->granted_ns / NSEC_PER_MSEC), "usedMilliseconds",
				(json_int_t)(row->used_ns / NSEC_PER_MSEC)));
	}
	return list;
}

static uint64_t ns_at(const json_t *row, const char *key)
{
	const json_int_t ms = json_integer_value(json_object_get(row, key));

	return ms > 0 && (uint64_t)ms < UINT64_MAX / 2 / NSEC_PER_MSEC
		? (uint64_t)ms * NSEC_PER_MSEC
		: 0;
}

int accounts_load(struct accounts *a, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *from = json_array_get(list, i);
		const char *day = json_string_value(json_object_get(from, "day")),
			   *space = json_string_value(json_object_get(from, "namespace"));
		struct account *row;

		if (!day || strlen(day) + 1 != ACCOUNT_DAY || !space || !space[0] ||
			strlen(space) >= sizeof(row->space))
			continue;
		if (accounts_find_or_add(a, day, space, &row) < 0)
			return -ENOMEM;
		row->asked_ns += ns_at(from,
			json_object_get(from, "requestedMilliseconds") ? "requestedMilliseconds"
								       : "askedMilliseconds");
		row->granted_ns += ns_at(from, "grantedMilliseconds");
		row->used_ns += ns_at(from, "usedMilliseconds");
	}
	return 0;
}
