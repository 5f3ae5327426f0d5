/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MIG instances as resources of NVIDIA's device plugin: nvidia.com/mig-2g.10gb is two of the seven
 * slices of a device, or of the four slices of some models, and 10 GB. Names are those of the
 * plugin's strategy "mixed", which writes '.' for the '+' of a profile. divvy makes no instances:
 * it gives as large a part of the time and the memory of a device. Pure; any thread.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "spec/dialect-internal.h"

#define P "nvidia.com/mig-"
#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)63), (s).p ? (s).p : ""
#define SLICES 7u
#define GB_MAX 1024u
#define GB UINT64_C(1000000000)

struct mig_profile {
	uint32_t slices, of; /* of `of` slices of the device */
	uint32_t gb;
	bool is_shared; /* a replica of the instance */
	bool has_engines;
};

/* Profiles of models with four slices. A profile of models of both kinds counts sevenths. */
static const struct {
	uint32_t slices, gb;
} fourths[] = {{1, 6}, {2, 12}, {4, 24}, {2, 48}, {4, 96}};

/* Takes the number in front of `unit` from the text: "1g" for unit 'g'. */
static bool mig_take_number(struct str *rest, char unit, uint32_t max, uint32_t *ret)
{
	const size_t n = str_find(*rest, unit);
	uint64_t value;

	if (n == rest->n || parse_uint((struct str){rest->p, n}, 1, max, &value, NULL) < 0)
		return false;
	*ret = (uint32_t)value;
	*rest = (struct str){rest->p + n + 1, rest->n - n - 1};
	return true;
}

/* "1g.5gb", "1g.5gb.me", "2g.10gb.shared" */
static bool mig_parse(struct str name, struct mig_profile *ret)
{
	static const char *const engines[] = {".me", ".me.all", "-me", ".gfx"};

	*ret = (struct mig_profile){.of = SLICES};
	if (!str_skip_prefix(&name, STR(P)) || !mig_take_number(&name, 'g', SLICES, &ret->slices) ||
		!str_skip_prefix(&name, STR(".")) ||
		!mig_take_number(&name, 'g', GB_MAX, &ret->gb) || !str_skip_prefix(&name, STR("b")))
		return false;
	ret->is_shared = str_skip_suffix(&name, STR(".shared"));
	for (size_t i = 0; name.n && i < ARRAY_SIZE(engines); i++)
		if (str_is(name, engines[i])) {
			ret->has_engines = true;
			name = STR_NONE;
		}
	for (size_t i = 0; i < ARRAY_SIZE(fourths); i++)
		if (fourths[i].slices == ret->slices && fourths[i].gb == ret->gb)
			ret->of = 4;
	return !name.n && ret->slices <= ret->of;
}

/*
 * Finds the one kind of instance that the container requests. Returns 1, 0 if it requests none, or
 * -EINVAL.
 */
static int mig_find(const struct dialect_draft *draft, uint32_t container, struct str *ret_name,
	struct error *err)
{
	struct draft_cursor cursor = {0};
	struct str name, first = STR_NONE;

	while (draft_next_resource(draft, container, P, &cursor, &name)) {
		if (first.n && !str_eq(first, name))
			return fail(err, EINVAL,
				"container " SHOW ": " SHOW " and " SHOW
				"; a container has one kind of instance, keep one of the two",
				SHOWN(draft->pod->container[container].name), SHOWN(first),
				SHOWN(name));
		first = name;
	}
	*ret_name = first;
	return first.n > 0;
}

/* Fills a spec whose count is the number of instances. */
static int mig_set(const struct dialect_draft *draft, struct str name,
	const struct mig_profile *profile, struct spec *spec, struct error *err)
{
	const uint32_t replicas = draft->config.timeslicing_replicas;
	uint32_t share = profile->slices * SPEC_SHARE_ONE / profile->of;

	if (profile->is_shared && !replicas)
		return fail(err, EINVAL,
			SHOW ": the number of replicas of the instance is missing; list the "
			     "dialect timeslicing=N as well",
			SHOWN(name));
	spec->limit = share;
	spec->memory_bytes = profile->gb * GB;
	if (profile->is_shared) {
		spec->memory_bytes /= replicas;
		share = MAX(share / replicas, 1u);
	}
	spec->request = share;
	if (share == SPEC_SHARE_ONE) {
		spec->request = spec->count * SPEC_SHARE_ONE;
		spec->count = spec->limit = 0;
		spec->memory_bytes = 0;
	}
	return 0;
}

static int mig_add(struct dialect_draft *draft, uint32_t container, struct error *err)
{
	struct mig_profile profile;
	uint64_t count = 0;
	struct spec spec;
	struct str name;
	int r = mig_find(draft, container, &name, err);

	if (r <= 0)
		return r;
	if (!mig_parse(name, &profile))
		return fail(err, EINVAL,
			SHOW ": unknown profile; expected " P
			     "Ng.Mgb with N from 1 to 7 and M from 1 to %u, also with .me or "
			     ".shared, such as " P "1g.10gb",
			SHOWN(name), GB_MAX);
	r = draft_resource_named(draft, container, name, SPEC_DEVICES_MAX, &count, err);
	if (r < 0 || !count)
		return MIN(r, 0);
	if (profile.has_engines)
		draft_note(draft, SHOW ": divvy does not divide media and graphics engines",
			SHOWN(name));
	spec_init(&spec);
	spec.count = (uint32_t)count;
	r = mig_set(draft, name, &profile, &spec, err);
	return r < 0 ? r : draft_add(draft, container, &spec, err);
}

static int mig_translate(struct dialect_draft *draft, struct error *err)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < draft->pod->n_containers; i++)
		r = mig_add(draft, i, err);
	return r;
}

static const struct dialect_key keys[] = {
	{P, DIALECT_RESOURCE, DIALECT_REQUESTS,
		"followed by Ng.Mgb: N/7 of a device as request and limit, and M x 10^9 bytes of "
		"memory; count: the number of instances"},
	{NULL},
};

static const char *const differs[] = {
	"N sevenths are rounded down to 0.001: 0.142, 0.285, 0.428 and 0.571. 7g is a whole device. "
	"1g.6gb, 2g.12gb, 4g.24gb, 2g.48gb and 4g.96gb are fourths, and 4g of them is a whole "
	"device.",
	"MIG's instances have a few percent more or less memory than M x 10^9 bytes. With this "
	"number as many tenants fit on a device as MIG's instances did.",
	"divvy divides time, not multiprocessors, caches and memory bandwidth. A fault of one "
	"program can end the others on its device, as without MIG.",
	"Several instances of a container are on different devices.",
	"A name with .me, .me.all, -me or .gfx means the same without engines of its own. A name "
	"with .shared needs timeslicing=N in the list: it is 1/N of the instance, and the instance is "
	"the limit.",
	"With the plugin's strategy single an instance is nvidia.com/gpu, which divvy cannot tell "
	"from a whole device. Compute instances such as 1c.3g.20gb have no resources.",
	NULL,
};

const struct dialect dialect_mig = {
	.name = "mig",
	.title = "nvidia.com/mig-*",
	.coming =
		"Switch MIG off on those nodes, and let divvyd own their devices. Then switch the "
		"dialect on. Without this dialect such pods stay unchanged, and need NVIDIA's "
		"device plugin and MIG.",
	.is_native = true,
	.keys = keys,
	.differs = differs,
	.translate = mig_translate,
};
