/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes docs/dialects.md from the dialects' tables. usage: dialect-docs FILE [--write]; without
 * --write the program fails if FILE differs from the new text.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "spec/dialect-group.h"
#include "spec/dialect.h"

#define PAGE_MAX (256u << 10)
#define COLUMNS 100u

static const char intro[] =
	"# Dialects\n"
	"\n"
	"A pod requests its share of a GPU by annotations, its own or those of its template. Manifests for\n"
	"another system run unchanged if the namespace switches that system's dialect on:\n"
	"\n"
	"    kubectl annotate namespace team-a divvy.gpu/dialects=hami,kubeshare2\n"
	"\n"
	"- Without that annotation only divvy's own keys count. Plain `nvidia.com/gpu` keeps its meaning\n"
	"  unless `nvidia` is in the list.\n"
	"- divvy refuses an impossible value when the object is created, with a message that names the\n"
	"  field, the value and the allowed range. divvy also refuses an unknown field: for\n"
	"  `divvy.gpu/reqest` the answer is `did you mean request?`\n"
	"- Shares are multiples of 0.001 of a GPU and memory is bytes. Both are exact: divvy refuses finer\n"
	"  values and rounds nothing.\n"
	"- Two dialects may apply to the same container if they mean the same. Otherwise divvy refuses the\n"
	"  pod and shows both readings.\n"
	"- No device plugin serves the resources of another system any more. The webhook removes them from\n"
	"  the containers and records them in `divvy.gpu/translated-from`. It also records the list of\n"
	"  dialects with the pod, so that a later change of the namespace's list does not change the pod.\n"
	"- divvy alone writes its results, in its own keys and in those of the dialect. The device plugin\n"
	"  sets environment variables. They inform and decide nothing.\n"
	"- If kubelet and runtime know CDI, each container finds all of its own variables. Otherwise divvyd\n"
	"  prepares a slot before it knows the pod. Of several pods that come to a node at the same moment,\n"
	"  each finds only the variables that are the same for all of them.\n"
	"- By default divvyd does not set `NVIDIA_VISIBLE_DEVICES`, which most of these systems set. NVIDIA's\n"
	"  runtime would take it as a request for devices, and refuse pods that may have none. With the\n"
	"  option `--devices-by=environment`, for runtimes without CDI, divvyd sets the variable to `all`.\n"
	"- For quotas a pod counts as in Kubernetes: main containers and sidecars are a sum, init containers\n"
	"  a maximum.\n"
	"\n"
	"`tests/unit/spec/dialect-docs.c` makes this page from the tables of `src/spec/dialect-*.c`, and a\n"
	"test compares the two.\n";

static const char groups[] =
	"\n"
	"## Groups of other schedulers\n"
	"\n"
	"divvy reads these keys of every pod, whatever dialects are active. If a pod names a PodGroup, its\n"
	"`spec.minMember` is the number of members that must fit before any of them starts. Pods of Volcano,\n"
	"Kubeflow's trainers, KubeRay and JobSets have these keys when they run in groups. divvy places the\n"
	"members with a share, also instead of Volcano, the scheduler-plugins or Koordinator. All other\n"
	"members count as present.\n"
	"\n"
	"Kubernetes has a PodGroup of its own since 1.36\n"
	"([its rules](reference/requested-keys.md#kubernetes-own-podgroups)).\n"
	"\n"
	"| key | where | PodGroup of | meaning |\n"
	"|---|---|---|---|\n";

static const char group_by[] =
	"\n"
	"### Groups by objects of other systems\n"
	"\n"
	"With `divvy.gpu/group-by` in a pod template, the pods of one object of another system start\n"
	"together or not at all. The group's name and size come from the labels, annotations and objects\n"
	"of that system, so nobody counts pods. Pods without the annotation are in no group. If only\n"
	"some templates of a JobSet or RayCluster have the annotation, only pods of these templates are\n"
	"members. `divvy.gpu/group-threshold` applies as usual.\n"
	"\n"
	"| value | the group | its size |\n"
	"|---|---|---|\n";

static const char *const wheres[] = {
	[DIALECT_ANNOTATION] = "annotation",
	[DIALECT_LABEL] = "label",
	[DIALECT_RESOURCE] = "resource",
	[DIALECT_ENV] = "environment",
	[DIALECT_STATUS] = "status",
	[DIALECT_FIELD] = "field",
};

/*
 * Appends the text in lines of at most COLUMNS. The first line begins with `indent`, later lines
 * with as many blanks.
 */
static void add_filled(struct buf *out, const char *indent, const char *text)
{
	struct str rest = str_from(text), word;
	size_t column = strlen(indent);

	buf_add_text(out, indent);
	for (bool is_first = true; str_word(&rest, &word); is_first = false) {
		if (!is_first && column + 1 + word.n > COLUMNS) {
			buf_addf(out, "\n%*s", (int)strlen(indent), "");
			column = strlen(indent);
		} else if (!is_first) {
			buf_add_text(out, " ");
			column++;
		}
		buf_add(out, word);
		column += word.n;
	}
	buf_add_text(out, "\n");
}

static void add_keys(
	struct buf *out, const struct dialect *dialect, bool is_given, const char *title)
{
	bool has_any = false;

	for (const struct dialect_key *k = dialect->keys; k->key; k++) {
		if ((k->use == DIALECT_GIVES) != is_given)
			continue;
		if (!has_any)
			buf_addf(out, "\n| %s | where | meaning |\n|---|---|---|\n", title);
		has_any = true;
		buf_addf(out, "| `%s` | %s | %s%s |\n", k->key, wheres[k->where],
			k->use == DIALECT_IGNORES ? "without effect: " : "", k->about);
	}
}

static void add_fields(struct buf *out)
{
	char name[SPEC_FIELD];

	buf_add_text(out, "\n| requested | where | meaning |\n|---|---|---|\n");
	for (size_t i = 0; spec_field_name(i, name); i++)
		buf_addf(out, "| `divvy.gpu/%s` | annotation | %s |\n", name, spec_field_help(i));
	buf_add_text(out,
		"| `" DIALECT_GROUP_BY_KEY "` | annotation | [object of another system]"
		"(#groups-by-objects-of-other-systems) whose pods start together |\n"
		"| `divvy.gpu/container` | annotation | containers to which the pod's fields apply, "
		"with commas; else the default container |\n");
}

static void add_dialect(struct buf *out, const struct dialect *dialect, bool is_own)
{
	if (is_own)
		buf_addf(out, "\n## %s keys\n\n", dialect->title);
	else
		buf_addf(out, "\n## From %s: `%s`\n\n", dialect->title, dialect->name);
	add_filled(out, "", dialect->coming);
	if (is_own)
		add_fields(out);
	else
		add_keys(out, dialect, false, "requested");
	add_keys(out, dialect, true, "assigned");
	if (dialect->differs[0])
		buf_add_text(out, "\nDifferences:\n\n");
	for (const char *const *d = dialect->differs; *d; d++)
		add_filled(out, "- ", *d);
}

/* The anchor that GitHub makes of add_dialect()'s heading. */
static void add_anchor(struct buf *out, const struct dialect *dialect)
{
	char heading[128], *end = heading;

	snprintf(heading, sizeof(heading), "From %s: %s", dialect->title, dialect->name);
	for (const char *c = heading; *c; c++) {
		if (isalnum((unsigned char)*c))
			*end++ = (char)tolower((unsigned char)*c);
		else if (*c == ' ' || *c == '-')
			*end++ = '-';
	}
	buf_add(out, (struct str){heading, (size_t)(end - heading)});
}

static void add_contents(struct buf *out)
{
	buf_add_text(out, "\n| dialect | system |\n|---|---|\n");
	for (size_t i = 1; dialect_at(i); i++) {
		buf_addf(out, "| `%s` | [%s](#", dialect_at(i)->name, dialect_at(i)->title);
		add_anchor(out, dialect_at(i));
		buf_add_text(out, ") |\n");
	}
}

static void make_page(struct buf *out)
{
	buf_add_text(out, intro);
	add_contents(out);
	for (size_t i = 0; dialect_at(i); i++)
		add_dialect(out, dialect_at(i), i == 0);
	buf_add_text(out, groups);
	for (size_t i = 0; dialect_group_key_at(i); i++) {
		const struct dialect_group_key *k = dialect_group_key_at(i);

		buf_addf(out, "| `%s` | %s | %s | %s |\n", k->key, wheres[k->where],
			k->object ? k->object : "none", k->about);
	}
	buf_add_text(out, group_by);
	for (size_t i = 0; dialect_group_by_at(i); i++) {
		const struct dialect_group_by *by = dialect_group_by_at(i);

		buf_addf(out, "| `%s` | %s | %s`%s` |\n", by->value, by->about,
			by->least ? "annotation " : "pod templates of the object of ",
			by->least ? by->least : by->object);
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
