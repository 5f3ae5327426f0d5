/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the capacity that is kept for containers of which some run before others. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "scheduler/stages.h"
#include "unit.h"

#define STAGES_MAX 6

/*
 * pod: its containers as "KIND SHARE BYTES DEVICES", such as "i 800 8 A,B"; "i" is an init
 * container, "s" a sidecar, "m" a main container. kept: for each container "SHARE:BYTES", with
 * further bytes after "+" if devices differ; "-": it keeps nothing.
 */
static const struct {
	const char *what, *pod, *kept;
} cases[] = {
	{"main containers add up", "m 300 3 A; m 200 2 A", "300:3 200:2"},
	{"a smaller init container needs nothing more", "i 400 5 A; m 300 3 A; m 200 2 A",
		"- 300:3 200:2"},
	{"of a larger init container the rest is kept", "i 800 8 A; m 300 3 A; m 200 2 A",
		"- 600:6 200:2"},
	{"share and memory are kept separately", "i 800 1 A; m 300 3 A", "- 800:3"},
	{"of several init containers the largest counts", "i 500 2 A; i 400 9 A; m 300 3 A",
		"- - 500:9"},
	{"a sidecar adds to main containers", "s 100 1 A; m 300 3 A", "100:1 300:3"},
	{"a sidecar adds to later init containers", "s 100 1 A; i 500 5 A; m 300 3 A",
		"300:3 - 300:3"},
	{"a sidecar does not add to earlier init containers", "i 500 5 A; s 100 1 A; m 300 3 A",
		"- 200:2 300:3"},
	{"an init container has a device of its own", "i 500 5 B; m 300 3 A", "500:5 300:3"},
	{"init containers share a device of their own", "i 500 5 B; i 600 2 B; m 300 3 A",
		"600:5 - 300:3"},
	{"each device keeps its own maximum", "i 700 7 A,B; m 300 3 A; m 200 2 B", "- 700:7 700:7"},
	{"a host keeps its share on all devices, but not memory", "i 700 7 B; m 300 3 A,B",
		"- 700:3+7"},
	{"an init container has a further device", "i 500 5 A,B; m 300 3 A", "500:0+5 300:5"},
	{"a share is at most a device", "s 600 1 A; i 700 1 A; m 300 1 A", "1000:1 - 300:1"},
	{"memory saturates at its maximum", "i 1 5 A; m 1 18446744073709551615 A; m 1 5 A",
		"- 1:18446744073709551615 1:5"},
};

struct pod {
	struct stage stage[STAGES_MAX];
	char device[STAGES_MAX][4][SPEC_LABEL];
	uint32_t n;
};

static void read_pod(const char *text, struct pod *pod)
{
	struct str all = str_from(text), one;

	*pod = (struct pod){.n = 0};
	while (str_split(&all, ';', &one)) {
		struct stage *s = &pod->stage[pod->n];
		char kind, devices[32], *name, *rest = devices;
		unsigned long long bytes;

		assert_int_equal(sscanf(str_trim(one).p, "%c %u %llu %31[A-Z,]", &kind, &s->share,
					 &bytes, devices),
			4);
		s->kind = kind == 'i' ? MANIFEST_INIT
			: kind == 's' ? MANIFEST_SIDECAR
				      : MANIFEST_MAIN;
		s->device = pod->device[pod->n];
		while ((name = strsep(&rest, ","))) {
			s->bytes[s->n] = bytes;
			snprintf(pod->device[pod->n][s->n++], SPEC_LABEL, "%s", name);
		}
		pod->n++;
	}
}

/*
 * Appends the kept share, and the kept bytes of each device. If the bytes of all devices are equal,
 * their number is appended once.
 */
static void add_kept(struct buf *kept, const struct stage *s)
{
	bool is_same = true;

	for (uint32_t i = 1; i < s->n; i++)
		is_same &= s->kept_bytes[i] == s->kept_bytes[0];
	buf_addf(kept, "%u", s->kept_share);
	for (uint32_t i = 0; i < (is_same ? 1 : s->n); i++)
		buf_addf(kept, "%c%llu", i ? '+' : ':', (unsigned long long)s->kept_bytes[i]);
}

static void containers_that_run_at_once_are_added_up(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf kept = BUF_INIT(4096);
		struct pod pod;

		read_pod(cases[i].pod, &pod);
		stages_settle(pod.stage, pod.n);
		for (uint32_t k = 0; k < pod.n; k++) {
			const struct stage *s = &pod.stage[k];

			buf_add_text(&kept, k ? " " : "");
			if (s->has_room)
				buf_add_text(&kept, "-");
			else
				add_kept(&kept, s);
		}
		if (strcmp(buf_text(&kept), cases[i].kept))
			fail_msg("%s: %s: %s instead of %s", cases[i].what, cases[i].pod,
				buf_text(&kept), cases[i].kept);
	}
}

UNIT_MAIN(UNIT(containers_that_run_at_once_are_added_up))
