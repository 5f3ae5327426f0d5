/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file writes values back into a pod, for each dialect that translated a container of the pod,
 * in the order of the table. Values go to the caller's `put`, whose first failure ends the writing.
 * writer_put_list() and the other writers format a value in a buffer of at most VALUE_MAX bytes.
 * Pure; any thread.
 */
#include "spec/dialect-internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define VALUE_MAX (64u << 10)
#define LABEL_MAX 64u /* bytes of a label's value, with the final 0 */
#define DEVICES_KEY "divvy.gpu/devices"

uint32_t writer_next(const struct dialect_writer *w, uint32_t from)
{
	while (from < w->result->n_tenants && w->result->tenant[from].dialect != w->dialect)
		from++;
	return from;
}

int writer_put(const struct dialect_writer *w, enum dialect_where where, uint32_t container,
	const char *key, const char *fmt, ...)
{
	_cleanup_buf_ struct buf value = BUF_INIT(VALUE_MAX);
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_addv(&value, fmt, ap);
	va_end(ap);
	return r < 0 ? r : w->put(w->data, where, container, key, buf_text(&value));
}

int writer_put_list(const struct dialect_writer *w, uint32_t tenant, enum writer_list list,
	enum dialect_where where, uint32_t container, const char *key)
{
	const struct dialect_grant *g = &w->given->grant[tenant];
	_cleanup_buf_ struct buf value = BUF_INIT(VALUE_MAX);

	for (uint32_t i = 0; i < g->n_devices; i++) {
		buf_add_text(&value, i ? "," : "");
		if (list == WRITER_UUIDS)
			buf_add_text(&value, g->device[i].uuid);
		else
			buf_addf(&value, "%u", g->device[i].index);
	}
	if (buf_error(&value) < 0)
		return buf_error(&value);
	return w->put(w->data, where, container, key, buf_text(&value));
}

int writer_put_vgpu(
	const struct dialect_writer *w, const char *name, const char *uuid, const char *port)
{
	const uint32_t i = writer_next(w, 0);
	int r = 0;

	if (w->given->vgpu)
		r = writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, name, "%s", w->given->vgpu);
	r = r < 0 ? r : writer_put_list(w, i, WRITER_UUIDS, DIALECT_STATUS, MANIFEST_NONE, uuid);
	return r < 0 ? r : writer_put(w, DIALECT_STATUS, MANIFEST_NONE, port, "0");
}

int dialect_write_back(const struct manifest *pod, const struct dialect_result *result,
	const struct dialect_assigned *given, dialect_put_fn put, void *data)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && dialect_at(i); i++) {
		struct dialect_writer w = {.pod = pod,
			.config = &result->config,
			.dialect = dialect_at(i),
			.result = result,
			.given = given,
			.put = put,
			.data = data};

		if (w.dialect->write_back && writer_next(&w, 0) < result->n_tenants)
			r = w.dialect->write_back(&w);
	}
	return r < 0 ? r : 0;
}

static int put_step(
	const struct dialect_step *step, uint64_t time_ns, dialect_put_fn put, void *data)
{
	char number[32];

	snprintf(number, sizeof(number), "%" PRIu64, time_ns);
	return put(data, DIALECT_ANNOTATION, MANIFEST_NONE, step->key,
		step->after ? step->after : number);
}

/* Writes the label with the first device of DEVICES_KEY: "main=GPU-1,GPU-2 side=GPU-3". */
static int put_label(
	const struct dialect_label *label, dialect_get_fn get, dialect_put_fn put, void *data)
{
	char uuid[LABEL_MAX];
	const char *devices;

	if (!label->key || !get(data, DIALECT_ANNOTATION, label->annotation) ||
		get(data, DIALECT_LABEL, label->key))
		return 0;
	devices = get(data, DIALECT_ANNOTATION, DEVICES_KEY);
	devices = devices ? strchr(devices, '=') : NULL;
	if (!devices)
		return 0;
	devices++;
	if (str_copy(uuid, sizeof(uuid), (struct str){devices, strcspn(devices, ", ")}) < 0)
		return 0;
	for (char *p = uuid; *p; p++) /* '/' of a MIG instance */
		*p = *p == '/' ? '_' : *p;
	return put(data, DIALECT_LABEL, MANIFEST_NONE, label->key, uuid);
}

int dialect_write_running(dialect_get_fn get, uint64_t time_ns, dialect_put_fn put, void *data)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && dialect_at(i); i++) {
		const struct dialect_step *step = dialect_at(i)->running;
		const char *value = step ? get(data, DIALECT_ANNOTATION, step->key) : NULL;

		if (!value || strcmp(value, step->before))
			continue;
		for (; r >= 0 && step->key; step++)
			r = put_step(step, time_ns, put, data);
	}
	for (size_t i = 0; r >= 0 && dialect_at(i); i++)
		r = put_label(&dialect_at(i)->label, get, put, data);
	return r < 0 ? r : 0;
}
