/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of keys and offsets maps a struct of texts to the data of a Secret, in both directions. A
 * patch has the resourceVersion of the object, so the API server refuses the patch if the object
 * has changed since it was read. A value that is no base64, or exceeds CERTIFICATE_PEM_MAX bytes,
 * reads as absent.
 */
#include "controller/secret.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "controller/certificate.h"
#include "kube/kube-json.h"

char *secret_decode(const char *text)
{
	_cleanup_(buf_wipe) struct buf out = BUF_INIT(CERTIFICATE_PEM_MAX);

	return text && base64_decode(str_from(text), &out) == 0 ? buf_take(&out) : NULL;
}

json_t *secret_encode(const char *pem)
{
	_cleanup_(buf_wipe) struct buf out = BUF_INIT(2 * CERTIFICATE_PEM_MAX);

	if (!pem)
		return json_null();
	return base64_encode(str_from(pem), &out) == 0 ? json_string(buf_text(&out)) : NULL;
}

void secret_read(const json_t *secret, const struct secret_field *fields, void *ret_store)
{
	const json_t *data = json_object_get(secret, "data");

	for (; fields->key; fields++)
		*(char **)(void *)((char *)ret_store + fields->at) = secret_decode(
			json_string_value(json_object_get(data, fields->key)));
}

json_t *secret_patch_data(const json_t *object, json_t *data)
{
	return json_pack("{s:{s:s*}, s:o}", "metadata", "resourceVersion",
		kube_json_text_at(object, "metadata", "resourceVersion", NULL), "data", data);
}

json_t *secret_patch(const json_t *secret, const struct secret_field *fields, const void *store)
{
	json_t *data = json_object();

	for (; fields->key; fields++)
		json_object_set_new(data, fields->key,
			secret_encode(
				*(char *const *)(const void *)((const char *)store + fields->at)));
	return secret_patch_data(secret, data);
}
