/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats and parses the annotation with a node's measurements, one word for each container. The
 * parser allocates nothing: results borrow from the text. measured_next() always advances beyond
 * the word that it read, so a faulty word cannot stop a reader's loop. measured_differs() compares
 * both texts word by word, so another order of the containers counts as a difference.
 */
#include "spec/measured.h"

#include <errno.h>
#include <inttypes.h>

#include "base/parse.h"

int measured_format(const struct measured *measured, struct buf *out)
{
	const size_t before = out->n;

	buf_addf(out, "%s%" STR_FMT "/%" STR_FMT, before ? " " : "", STR_ARG(measured->uid),
		STR_ARG(measured->container));
	for (uint32_t i = 0; i < measured->n; i++)
		buf_addf(out, "%c%" PRIu32 ":%" PRIu64, i ? ',' : '=',
			measured->device[i].share_permille, measured->device[i].memory_bytes);
	if (buf_error(out) < 0)
		buf_truncate(out, before);
	return buf_error(out);
}

static int measured_parse_device(struct str text, struct measured_device *ret)
{
	struct str share;
	uint64_t permille;

	if (!str_split(&text, ':', &share) || !text.p ||
		parse_uint(share, 0, UINT32_MAX, &permille, NULL) < 0 ||
		parse_uint(text, 0, INT64_MAX, &ret->memory_bytes, NULL) < 0)
		return -EINVAL;
	ret->share_permille = permille > SHARE_ONE ? SHARE_ONE : (uint32_t)permille;
	return 0;
}

static int measured_parse_word(struct str word, struct measured *ret)
{
	struct str values = word, name, value;

	if (!str_split(&values, '=', &name) || !str_split(&name, '/', &ret->uid))
		return -EINVAL;
	ret->container = name;
	if (!ret->uid.n || !ret->container.n || !values.n)
		return -EINVAL;
	for (ret->n = 0; str_split(&values, ',', &value); ret->n++)
		if (ret->n == SPEC_DEVICES_MAX ||
			measured_parse_device(value, &ret->device[ret->n]) < 0)
			return -EINVAL;
	return 0;
}

int measured_next(struct str *rest, struct measured *ret_measured, struct error *err)
{
	struct measured m = {0};
	struct str word;

	if (!str_word(rest, &word))
		return 0;
	if (measured_parse_word(word, &m) < 0)
		return fail(err, EINVAL,
			"'%" STR_FMT "': expected UID/CONTAINER=SHARE:BYTES, such as "
			"1b4e-28ba/main=300:1073741824",
			STR_ARG(word));
	*ret_measured = m;
	return 1;
}

int measured_find(
	struct str all, struct str uid, struct str container, struct measured *ret_measured)
{
	struct measured m;
	int r;

	while ((r = measured_next(&all, &m, NULL)))
		if (r > 0 && str_eq(m.uid, uid) && str_eq(m.container, container)) {
			*ret_measured = m;
			return 0;
		}
	return -ENOENT;
}

static bool is_far(uint64_t a, uint64_t b, uint64_t step)
{
	return MAX(a, b) - MIN(a, b) >= step;
}

static bool device_differs(const struct measured_device *a, const struct measured_device *b)
{
	const uint64_t eighth = MAX(a->memory_bytes, b->memory_bytes) / 8;

	return is_far(a->share_permille, b->share_permille, MEASURED_SHARE_STEP) ||
		is_far(a->memory_bytes, b->memory_bytes, MAX(eighth, MEASURED_MEMORY_STEP));
}

/* Both texts come from the same node, which lists its containers in a stable order. */
bool measured_differs(struct str before, struct str now)
{
	struct measured a, b;
	int ra, rb;

	for (;;) {
		ra = measured_next(&before, &a, NULL);
		rb = measured_next(&now, &b, NULL);
		if (ra <= 0 || rb <= 0)
			return ra != rb;
		if (!str_eq(a.uid, b.uid) || !str_eq(a.container, b.container) || a.n != b.n)
			return true;
		for (uint32_t i = 0; i < a.n; i++)
			if (device_differs(&a.device[i], &b.device[i]))
				return true;
	}
}
