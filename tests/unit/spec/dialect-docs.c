/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs/dialects.md out of the tables. usage: dialect-docs FILE [--write]; without --write it fails
 * when the file is not what would be written.
 */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "spec/dialect-group.h"
#include "spec/dialect.h"

#define PAGE_MAX (256u << 10)

static const char intro[] =
	"# What a pod may ask, and in whose words\n"
	"\n"
	"This page is made from the tables that translate (`src/spec/dialect-*.c`); a test keeps "
	"it so.\n"
	"\n"
	"A pod asks for its share of a GPU by annotations, its own or those of the template it is "
	"made\n"
	"from. Manifests that were written for another system run as they are where the namespace\n"
	"switches that system's dialect on:\n"
	"\n"
	"    kubectl annotate namespace team-a divvy.gpu/dialects=hami,kubeshare2\n"
	"\n"
	"- Without that annotation only divvy's own words count. Plain `nvidia.com/gpu` is left "
	"alone\n"
	"  unless `nvidia` is in the list.\n"
	"- A value that cannot be is refused when the object is made, with one sentence that names "
	"the\n"
	"  field, the value and what is possible. So is a field that does not exist: "
	"`divvy.gpu/reqest`\n"
	"  is answered with `did you mean request?`\n"
	"- Shares are multiples of 0.001 of a GPU, memory is bytes, and both are exact: finer "
	"values are\n"
	"  refused, nothing is rounded.\n"
	"- Two dialects may speak of the same container when they mean the same; otherwise the pod "
	"is\n"
	"  refused, with both readings.\n"
	"- Resources of another system are taken out of the containers, since nobody offers them "
	"any more,\n"
	"  and recorded in `divvy.gpu/translated-from`. The list of dialects is recorded with the "
	"pod too: when\n"
	"  the namespace's changes, pods that are there go on meaning what they meant.\n"
	"- What divvy gives is written by divvy alone, in its own words and in those of the "
	"dialect.\n"
	"  Environment variables are set by the device plugin. They inform; they decide nothing.\n"
	"  Where kubelet and runtime know CDI each container finds all of its own. Elsewhere a "
	"slot is\n"
	"  prepared before it is said for whom: of pods that come to a node at the same moment "
	"each finds\n"
	"  what is the same for all of them. `NVIDIA_VISIBLE_DEVICES`, which most of these systems "
	"set too,\n"
	"  is not set: NVIDIA's runtime takes it as a wish for devices, and refuses pods that may "
	"have none.\n"
	"- For quotas a pod counts as Kubernetes counts: its main containers and sidecars are a "
	"sum, its\n"
	"  init containers a maximum.\n";

static const char groups[] =
	"\n"
	"## Groups of other schedulers\n"
	"\n"
	"Read of every pod, whatever is switched on. Where a PodGroup object is named, its\n"
	"`spec.minMember` says how many have to have a place before any of them starts. Pods of\n"
	"Volcano, Kubeflow's trainers, KubeRay and JobSets carry these when they run in groups; "
	"divvy\n"
	"places those that have a share, also where Volcano, the scheduler-plugins or Koordinator "
	"were\n"
	"to, and counts the rest as there.\n"
	"\n"
	"| key | where | PodGroup of | what it is |\n"
	"|---|---|---|---|\n";

static const char *const wheres[] = {
	[DIALECT_ANNOTATION] = "annotation",
	[DIALECT_LABEL] = "label",
	[DIALECT_RESOURCE] = "resource",
	[DIALECT_ENV] = "environment",
	[DIALECT_STATUS] = "status",
};

static void add_keys(
	struct buf *out, const struct dialect *dialect, bool is_given, const char *title)
{
	bool has_any = false;

	for (const struct dialect_key *k = dialect->keys; k->key; k++) {
		if ((k->use == DIALECT_GIVES) != is_given)
			continue;
		if (!has_any)
			buf_addf(out, "\n| %s | where | what it is |\n|---|---|---|\n", title);
		has_any = true;
		buf_addf(out, "| `%s` | %s | %s%s |\n", k->key, wheres[k->where],
			k->use == DIALECT_IGNORES ? "without effect: " : "", k->about);
	}
}

static void add_fields(struct buf *out)
{
	char name[SPEC_FIELD];

	buf_add_text(out, "\n| read | where | what it is |\n|---|---|---|\n");
	for (size_t i = 0; spec_field_name(i, name); i++)
		buf_addf(out, "| `divvy.gpu/%s` | annotation | %s |\n", name, spec_field_help(i));
	buf_add_text(out,
		"| `divvy.gpu/container` | annotation | containers that the pod's fields speak of, "
		"with commas; else the default container |\n");
}

static void add_dialect(struct buf *out, const struct dialect *dialect, bool is_own)
{
	if (is_own)
		buf_addf(out, "\n## In %s words\n\n%s\n", dialect->title, dialect->coming);
	else
		buf_addf(out, "\n## You come from %s: `%s`\n\n%s\n", dialect->title, dialect->name,
			dialect->coming);
	if (is_own)
		add_fields(out);
	else
		add_keys(out, dialect, false, "read");
	add_keys(out, dialect, true, "written back");
	if (dialect->differs[0])
		buf_add_text(out, "\nWhat is not as it was, and why:\n\n");
	for (const char *const *d = dialect->differs; *d; d++)
		buf_addf(out, "- %s\n", *d);
}

static void make_page(struct buf *out)
{
	buf_add_text(out, intro);
	for (size_t i = 0; dialect_at(i); i++)
		add_dialect(out, dialect_at(i), i == 0);
	buf_add_text(out, groups);
	for (size_t i = 0; dialect_group_key_at(i); i++) {
		const struct dialect_group_key *k = dialect_group_key_at(i);

		buf_addf(out, "| `%s` | %s | %s | %s |\n", k->key, wheres[k->where],
			k->object ? k->object : "none", k->about);
	}
}

int main(int argc, char **argv)
{
	_cleanup_buf_ struct buf page = BUF_INIT(PAGE_MAX), there = BUF_INIT(PAGE_MAX);
	struct error err = {0};
	bool is_same;
	FILE *f;

	if (argc < 2)
		return 2;
	make_page(&page);
	if (buf_error(&page) < 0)
		return 1;
	if (argc > 2 && !strcmp(argv[2], "--write")) {
		f = fopen(argv[1], "w");
		return !f || fwrite(page.p, 1, page.n, f) != page.n || fclose(f) != 0;
	}
	is_same = file_read(argv[1], &there, &err) == 0 && str_eq(buf_str(&page), buf_str(&there));
	printf("%sok 1 - docs/dialects.md is current%s%s\n1..1\n", is_same ? "" : "not ",
		is_same ? "" : "\n# run this with --write behind the file; ",
		is_same ? "" : err.msg);
	return !is_same;
}
