/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats and reads the checkpoint: see dra-checkpoint.h. A reader of a later version must still
 * read version 1, because pods outlive an upgrade of divvyd. Unknown members of a claim are
 * ignored, so an older divvyd reads what a newer one has added.
 */
#include "dra/dra-checkpoint.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/spec-json.h"
#include "kube/kube-json.h"

#define VERSION 1

/* ---- writing ---- */

static json_t *tenant_json(const struct dra_tenant *t)
{
	json_t *places = json_array();

	for (uint32_t i = 0; i < t->spec.count; i++)
		json_array_append_new(places,
			json_pack("{s:s, s:I}", "uuid", t->places[i].uuid, "quota",
				(json_int_t)t->places[i].quota_bytes));
	return json_pack("{s:s, s:s, s:I, s:o, s:o}", "request", t->request, "fullRequest",
		t->full_request, "slot", (json_int_t)t->slot, "spec", spec_to_json(&t->spec),
		"devices", places);
}

static json_t *share_json(const struct dra_share *s)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:i}", "request", s->request, "pool", s->pool,
		"device", s->device, "shareID", s->share_id, "tenant", (int)s->tenant);
}

static json_t *claim_json(const struct dra_claim *claim)
{
	json_t *tenants = json_array(), *results = json_array();

	for (uint32_t i = 0; i < claim->n_tenants; i++)
		json_array_append_new(tenants, tenant_json(&claim->tenants[i]));
	for (uint32_t i = 0; i < claim->n_shares; i++)
		json_array_append_new(results, share_json(&claim->shares[i]));
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "namespace", claim->space, "name",
		claim->name, "uid", claim->uid, "pod", claim->pod, "podUID", claim->pod_uid,
		"tenants", tenants, "results", results);
}

static int add_bytes(const char *text, size_t n, void *data)
{
	return buf_add(data, (struct str){text, n}) < 0 ? -1 : 0;
}

static int add_line(struct buf *out, json_t *line)
{
	_cleanup_json_ json_t *owned = line;

	if (!owned)
		return -ENOMEM;
	if (json_dump_callback(owned, add_bytes, out, JSON_COMPACT) < 0)
		return buf_error(out) < 0 ? buf_error(out) : -ENOMEM;
	return buf_add_byte(out, '\n');
}

int checkpoint_add_version(struct buf *out)
{
	return add_line(out, json_pack("{s:i}", "version", VERSION));
}

int checkpoint_add_prepared(struct buf *out, const struct dra_claim *claim)
{
	return add_line(out, json_pack("{s:o}", "prepared", claim_json(claim)));
}

int checkpoint_add_unprepared(struct buf *out, const char *uid)
{
	return add_line(out, json_pack("{s:s}", "unprepared", uid));
}

/* ---- reading ---- */

static int copy(char *to, size_t size, const json_t *from, const char *key, struct error *err)
{
	const char *text = kube_json_text_at(from, key, NULL);

	if (!text || str_copy(to, size, str_from(text)) < 0)
		return fail(err, EINVAL, "%s: expected a text of at most %zu bytes", key, size - 1);
	return 0;
}

static int read_places(const json_t *all, struct dra_tenant *t, struct error *err)
{
	int r = 0;

	if (!t->spec.count || t->spec.count > SPEC_DEVICES_MAX ||
		json_array_size(all) != t->spec.count)
		return fail(err, EINVAL, "devices: expected %u", t->spec.count);
	for (uint32_t i = 0; r >= 0 && i < t->spec.count; i++) {
		const json_t *one = json_array_get(all, i);
		const json_int_t quota = json_integer_value(json_object_get(one, "quota"));

		r = copy(t->places[i].uuid, sizeof(t->places[i].uuid), one, "uuid", err);
		if (r >= 0 && quota <= 0)
			r = fail(err, EINVAL, "quota: expected a number of bytes");
		t->places[i].quota_bytes = (uint64_t)quota;
	}
	return r;
}

static int read_tenant(const json_t *json, struct dra_tenant *t, struct error *err)
{
	const json_int_t slot = json_integer_value(json_object_get(json, "slot"));
	int r = copy(t->request, sizeof(t->request), json, "request", err);

	r = r < 0 ? r : copy(t->full_request, sizeof(t->full_request), json, "fullRequest", err);
	r = r < 0 ? r : spec_from_json(json_object_get(json, "spec"), &t->spec, err);
	if (r >= 0 && (slot < 0 || slot >= DRA_NO_SLOT))
		r = fail(err, EINVAL, "slot: expected a number");
	t->slot = (uint32_t)slot;
	return r < 0 ? r : read_places(json_object_get(json, "devices"), t, err);
}

static int read_share(
	const json_t *json, uint32_t n_tenants, struct dra_share *s, struct error *err)
{
	const json_int_t tenant = json_integer_value(json_object_get(json, "tenant"));
	int r = copy(s->request, sizeof(s->request), json, "request", err);

	r = r < 0 ? r : copy(s->pool, sizeof(s->pool), json, "pool", err);
	r = r < 0 ? r : copy(s->device, sizeof(s->device), json, "device", err);
	r = r < 0 ? r : copy(s->share_id, sizeof(s->share_id), json, "shareID", err);
	if (r >= 0 && (tenant < 0 || tenant >= n_tenants))
		r = fail(err, EINVAL, "tenant: expected a number below %u", n_tenants);
	s->tenant = (uint32_t)tenant;
	return r;
}

static int read_lists(const json_t *json, struct dra_claim *claim, struct error *err)
{
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < claim->n_tenants; i++)
		r = read_tenant(json_array_get(json_object_get(json, "tenants"), i),
			&claim->tenants[i], err);
	for (uint32_t i = 0; r >= 0 && i < claim->n_shares; i++)
		r = read_share(json_array_get(json_object_get(json, "results"), i),
			claim->n_tenants, &claim->shares[i], err);
	return r;
}

static int read_claim(const json_t *json, struct dra_claim **ret_claim, struct error *err)
{
	const size_t n_tenants = json_array_size(json_object_get(json, "tenants")),
		     n_shares = json_array_size(json_object_get(json, "results"));
	_cleanup_dra_claim_ struct dra_claim *claim = NULL;
	int r;

	if (!n_tenants || n_tenants > DRA_SHARES_MAX || !n_shares || n_shares > DRA_SHARES_MAX)
		return fail(err, EINVAL, "expected 1 to %u tenants and results", DRA_SHARES_MAX);
	claim = dra_claim_new((uint32_t)n_tenants);
	if (!claim)
		return fail(err, ENOMEM, "out of memory");
	claim->n_tenants = (uint32_t)n_tenants;
	claim->n_shares = (uint32_t)n_shares;
	r = copy(claim->space, sizeof(claim->space), json, "namespace", err);
	r = r < 0 ? r : copy(claim->name, sizeof(claim->name), json, "name", err);
	r = r < 0 ? r : copy(claim->uid, sizeof(claim->uid), json, "uid", err);
	r = r < 0 ? r : copy(claim->pod, sizeof(claim->pod), json, "pod", err);
	r = r < 0 ? r : copy(claim->pod_uid, sizeof(claim->pod_uid), json, "podUID", err);
	r = r < 0 ? r : read_lists(json, claim, err);
	if (r < 0)
		return r;
	*ret_claim = TAKE_PTR(claim);
	return 0;
}

static int read_line(struct str text, const struct checkpoint_handler *h, struct error *err)
{
	_cleanup_json_ json_t *line = NULL;
	const json_t *prepared;
	struct dra_claim *claim = NULL;
	const char *uid;
	int r = kube_json_parse(text, &line, err);

	if (r < 0)
		return r == -ENOMEM ? r : fail(err, EINVAL, "expected a JSON object");
	uid = kube_json_text_at(line, "unprepared", NULL);
	if (uid) {
		h->unprepared(h->data, uid);
		return 0;
	}
	prepared = json_object_get(line, "prepared");
	if (!prepared)
		return fail(err, EINVAL, "expected 'prepared' or 'unprepared'");
	r = read_claim(prepared, &claim, err);
	if (r >= 0)
		h->prepared(h->data, claim);
	return r < 0 ? r : 0;
}

static bool is_version(struct str text)
{
	_cleanup_json_ json_t *line = NULL;

	return kube_json_parse(text, &line, NULL) >= 0 &&
		json_integer_value(json_object_get(line, "version")) == VERSION;
}

int checkpoint_read(struct str text, const struct checkpoint_handler *handler, size_t *ret_size,
	struct error *err)
{
	size_t at = 0;
	int result = 0;

	for (uint32_t number = 1;; number++) {
		const struct str rest = {text.p + at, text.n - at};
		const struct str line = {rest.p, str_find(rest, '\n')};
		struct error why;
		int r = 0;

		if (line.n == rest.n)
			break;
		at += line.n + 1;
		if (number == 1 && !is_version(line)) {
			*ret_size = at;
			return fail(err, EBADMSG,
				"checkpoint: expected version %d in the first line", VERSION);
		}
		if (number > 1)
			r = read_line(line, handler, &why);
		if (r < 0 && result >= 0)
			result = fail(err, -r, "checkpoint: line %u: %s", number, why.msg);
	}
	*ret_size = at;
	return at || result < 0 ? result
				: fail(err, EBADMSG, "checkpoint: expected a line with a version");
}
