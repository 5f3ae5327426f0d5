/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats devices as text: a line with a bar for each device and a line for each of its tenants. A
 * new heading begins when the node's name changes, so the devices of a node must stand together.
 * share_at() and draw_bytes_at() print "?" for a value that the row lacks. A native device without
 * divvy's tenants has no bar, since another device plugin hands that device out.
 */
#include "kubectl/device-bars.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/format.h"
#include "cmdline/json-member.h"
#include "spec/spec.h"

static uint32_t draw_bar_cells(uint32_t permille)
{
	return MIN((permille * DRAW_BAR + 500) / 1000, DRAW_BAR);
}

void draw_bar(uint32_t granted, uint32_t got, bool is_ascii, struct buf *out)
{
	const uint32_t used = draw_bar_cells(got), held = MAX(draw_bar_cells(granted), used);

	for (uint32_t i = 0; i < DRAW_BAR; i++)
		buf_add_text(out,
			i < used           ? is_ascii ? "#" : "\u2588"
				: i < held ? is_ascii ? "=" : "\u2592"
				: is_ascii ? "."
					   : "\u00b7");
}

/* Appends the member as a share such as "0.28", or "?" if it is missing. */
static void share_at(const json_t *of, const char *key, struct buf *out)
{
	if (json_object_get(of, key))
		buf_add_text(out, format_share((uint32_t)json_uint_or_zero(of, key)).s);
	else
		buf_add_byte(out, '?');
}

static void draw_bytes_at(const json_t *of, const char *key, struct buf *out)
{
	if (json_object_get(of, key))
		buf_add_text(out, format_bytes(json_uint_or_zero(of, key)).s);
	else
		buf_add_byte(out, '?');
}

static void draw_tenant(const json_t *t, struct buf *out)
{
	buf_addf(out, "    %s/%s/%s  %s  granted %s, used ", json_text_or_empty(t, "namespace"),
		json_text_or_empty(t, "pod"), json_text_or_empty(t, "container"),
		json_text_or_empty(t, "class"), json_text_or_empty(t, "granted"));
	share_at(t, "used_permille", out);
	buf_add_text(out, ", memory ");
	draw_bytes_at(t, "used_bytes", out);
	buf_add_text(out, " of ");
	draw_bytes_at(t, "memory_bytes", out);
	if (json_text_or_empty(t, "idle_since")[0])
		buf_addf(out, ", idle since %s", json_text_or_empty(t, "idle_since"));
	if (json_text_or_empty(t, "note")[0])
		buf_addf(out, "; %s", json_text_or_empty(t, "note"));
	buf_add_byte(out, '\n');
}

/*
 * Returns whether another device plugin hands out the device, so that the use of the device is
 * unknown.
 */
static bool is_anothers(const json_t *device)
{
	return !strcmp(json_text_or_empty(device, "owner"), "native") &&
		!json_array_size(json_object_get(device, "tenants"));
}

static void draw_shares(const json_t *d, bool is_ascii, struct buf *out)
{
	buf_add_byte(out, '[');
	draw_bar((uint32_t)json_uint_or_zero(d, "granted_permille"),
		(uint32_t)json_uint_or_zero(d, "used_permille"), is_ascii, out);
	buf_add_text(out, "]  granted ");
	share_at(d, "granted_permille", out);
	buf_add_text(out, ", used ");
	share_at(d, "used_permille", out);
	buf_add_text(out, ", memory ");
	draw_bytes_at(d, "granted_bytes", out);
	buf_add_text(out, " of ");
	draw_bytes_at(d, "memory_bytes", out);
}

static void draw_taints(const json_t *taints, struct buf *out)
{
	for (size_t i = 0; i < json_array_size(taints); i++) {
		const json_t *taint = json_array_get(taints, i);
		const char *value = json_text_or_empty(taint, "value");

		buf_addf(out, "; taint %s%s%s:%s since %s", json_text_or_empty(taint, "key"),
			value[0] ? "=" : "", value, json_text_or_empty(taint, "effect"),
			json_text_or_empty(taint, "timeAdded"));
	}
}

static void draw_device(const json_t *d, bool is_ascii, struct buf *out)
{
	const char *health = json_text_or_empty(d, "health");
	const json_t *tenants = json_object_get(d, "tenants");

	buf_addf(out, "  %d %s %s  ", (int)json_int_or_zero(d, "index"),
		json_text_or_empty(d, "uuid"), json_text_or_empty(d, "model"));
	if (is_anothers(d))
		buf_add_text(out, "another device plugin's");
	else
		draw_shares(d, is_ascii, out);
	if (strcmp(health, "Healthy"))
		buf_addf(out, "; %s%s%s", health, json_text_or_empty(d, "reason")[0] ? ": " : "",
			json_text_or_empty(d, "reason"));
	draw_taints(json_object_get(d, "taints"), out);
	if (json_bool_or_false(d, "cordoned"))
		buf_addf(out, "; cordoned%s%s",
			json_text_or_empty(d, "cordon_reason")[0] ? ": " : "",
			json_text_or_empty(d, "cordon_reason"));
	buf_add_byte(out, '\n');
	for (size_t i = 0; i < json_array_size(tenants); i++)
		draw_tenant(json_array_get(tenants, i), out);
}

void draw_devices(const json_t *devices, bool is_ascii, struct buf *out)
{
	const char *node = NULL;

	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *d = json_array_get(devices, i);

		if (!node || strcmp(node, json_text_or_empty(d, "node"))) {
			node = json_text_or_empty(d, "node");
			buf_addf(out, "%s%s%s", i ? "\n" : "", node,
				json_bool_or_false(d, "simulated") ? "  (simulated devices)" : "");
			if (json_int_or_zero(d, "silent_seconds"))
				buf_addf(out,
					"  (divvyd last reported %s ago; values are of that time)",
					format_duration(
						(uint64_t)json_int_or_zero(d, "silent_seconds") *
						NSEC_PER_SEC)
						.s);
			if (json_text_or_empty(d, "not_ready")[0])
				buf_addf(out, "  (not ready: %s)",
					json_text_or_empty(d, "not_ready"));
			buf_add_byte(out, '\n');
		}
		draw_device(d, is_ascii, out);
	}
}

void draw_bare_nodes(const json_t *nodes, struct buf *out)
{
	for (size_t i = 0; i < json_array_size(nodes); i++) {
		const char *why = json_text_or_empty(json_array_get(nodes, i), "why");

		buf_addf(out, "%s  (no devices%s%s)\n",
			json_text_or_empty(json_array_get(nodes, i), "node"), why[0] ? ": " : "",
			why);
	}
}
