/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy ps`: prints a row for each container that requests devices. report_tenants()
 * makes the rows; only --wide prints the columns after the first NARROW. An annotation of a
 * namespace lists its dialects. If the server denies the list of namespaces, the command reads pods
 * as if no namespace had that annotation.
 */
#include <errno.h>
#include <string.h>

#include "base/format.h"
#include "cmdline/json-member.h"
#include "cmdline/output.h"
#include "kubectl/kubectl-access.h"
#include "kubectl/kubectl-commands.h"
#include "kubectl/kubectl-text.h"
#include "kubectl/report.h"
#include "spec/dialect.h"

static const struct option_row options[] = {
	ACCESS_NAMESPACE_OPTION,
	{"all-namespaces", NULL, "tenants of all namespaces", .letter = 'A'},
	{"wide", NULL, "add device UUIDs and notes", .letter = 'w'},
	CLI_OUTPUT_OPTION,
	ACCESS_OPTIONS,
	{0},
};

static const struct table_column columns[] = {{"NAMESPACE", false}, {"POD", false},
	{"CONTAINER", false}, {"NODE", false}, {"CLASS", false}, {"REQUESTED", true},
	{"GRANTED", true}, {"USED", true}, {"MEMORY", true}, {"QUOTA", true}, {"STATE", false},
	{"DEVICES", false}, {"NOTE", false}};

#define NARROW 11

/* Returns {UUID: health} of all devices that are not healthy. */
static json_t *kubectl_ps_faults(const json_t *nodes)
{
	json_t *faults = json_object();

	for (size_t i = 0; i < json_array_size(nodes); i++) {
		const json_t *devices = kube_json_at(
			json_array_get(nodes, i), "status", "devices", NULL);

		for (size_t k = 0; k < json_array_size(devices); k++) {
			const json_t *device = json_array_get(devices, k);
			const char *uuid = kube_json_text_at(device, "uuid", NULL),
				   *health = kube_json_text_at(device, "health", NULL);

			if (uuid && health && strcmp(health, "Healthy"))
				json_object_set_new(faults, uuid, json_string(health));
		}
	}
	return faults;
}

/*
 * The health of the first device in the row that is not healthy; NULL: all are. The devices of a
 * remote pod are on another node than the pod.
 */
static const char *kubectl_ps_fault(const json_t *faults, const json_t *row)
{
	const json_t *uuids = json_object_get(row, "devices");

	for (size_t i = 0; i < json_array_size(uuids); i++) {
		const char *uuid = json_string_value(json_array_get(uuids, i));
		const json_t *health = uuid ? json_object_get(faults, uuid) : NULL;

		if (health)
			return json_string_value(health);
	}
	return NULL;
}

static void kubectl_ps_add_row(
	struct table *t, const json_t *faults, const json_t *row, bool is_wide)
{
	static const char *const texts[] = {
		"namespace", "pod", "container", "node", "class", "requested", "granted"};
	const json_t *devices = json_object_get(row, "devices");
	_cleanup_buf_ struct buf list = BUF_INIT(4096);
	const char *fault = kubectl_ps_fault(faults, row);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		table_add(t, json_text_or_empty(row, texts[i]));
	table_add(t,
		json_object_get(row, "used_permille")
			? format_share((uint32_t)json_uint_or_zero(row, "used_permille")).s
			: "");
	table_add(t,
		json_object_get(row, "used_bytes")
			? format_bytes(json_uint_or_zero(row, "used_bytes")).s
			: "");
	table_add(t,
		json_object_get(row, "memory_bytes")
			? format_bytes(json_uint_or_zero(row, "memory_bytes")).s
			: "");
	table_addf(t, "%s%s%s", json_text_or_empty(row, "state"), fault ? ", device " : "",
		fault ? fault : "");
	if (!is_wide)
		return;
	for (size_t i = 0; i < json_array_size(devices); i++)
		buf_addf(
			&list, "%s%s", i ? "," : "", json_string_value(json_array_get(devices, i)));
	table_add(t, buf_text(&list));
	table_add(t, json_text_or_empty(row, "note"));
}

static int kubectl_ps_print_rows(
	const struct cli_args *args, const json_t *nodes, const json_t *rows, struct error *err)
{
	const bool is_wide = cli_has(args, "wide");
	_cleanup_json_ json_t *faults = kubectl_ps_faults(nodes);
	_cleanup_table_ struct table t;

	table_init(&t, columns, is_wide ? ARRAY_SIZE(columns) : NARROW);
	for (size_t i = 0; i < json_array_size(rows); i++)
		kubectl_ps_add_row(&t, faults, json_array_get(rows, i), is_wide);
	return output_table(&t, err);
}

/* Returns {namespace: dialects}; empty if the user may not list namespaces. */
static json_t *dialects_of(struct access *a)
{
	const struct kube_target target = {.group_version = "v1", .resource = "namespaces"};
	_cleanup_json_ json_t *all = NULL;
	json_t *made = json_object();

	if (access_list(a, &target, NULL, &all, NULL) < 0)
		return made;
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *one = json_array_get(all, i);
		const char *list = kube_json_text_at(
			one, "metadata", "annotations", DIALECT_LIST_KEY, NULL);

		if (list)
			json_object_set_new(made, kube_json_text_at(one, "metadata", "name", NULL),
				json_string(list));
	}
	return made;
}

static int kubectl_ps_run(const struct cli_args *args, struct error *err)
{
	_cleanup_access_ struct access a = {.loop = NULL};
	_cleanup_json_ json_t *nodes = NULL, *pods = NULL, *dialects = NULL, *rows = NULL,
			      *leases = NULL;
	int r = access_open(args, &a, err);

	r = r < 0 ? r : access_gpunodes(&a, &nodes, err);
	r = r < 0 ? r : access_leases(&a, &leases, err);
	r = r < 0 ? r
		  : access_pods(&a, cli_has(args, "all-namespaces") ? NULL : a.space, &pods, err);
	if (r < 0)
		return r;
	dialects = dialects_of(&a);
	rows = report_tenants(&(struct report_facts){nodes, leases, kube_client_real_ns(a.client)},
		pods, dialects);
	r = output_as_table(args, rows, err);
	return r == 1 ? kubectl_ps_print_rows(args, nodes, rows, err) : r;
}

static int kubectl_ps_check(const struct cli_args *args, struct error *err)
{
	if (cli_has(args, "all-namespaces") && cli_has(args, "namespace"))
		return fail(err, EINVAL,
			"--all-namespaces and --namespace %.63s: use only one of them",
			cli_get(args, "namespace"));
	return 0;
}

const struct cli_command cmd_ps = {
	.name = "ps",
	.operands = "",
	.summary = "List tenants: requested, granted and used share, memory, state",
	.text = TEXT_PS_TEXT,
	.examples =
		"kubectl divvy ps -A\nkubectl divvy ps -n team-a -o json | jq '.[].used_permille'",
	.options = options,
	.check = kubectl_ps_check,
	.run = kubectl_ps_run,
};
