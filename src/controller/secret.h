/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps a struct of texts, such as keys and certificates, to the data of a Secret. A store is a
 * struct of `char *` that owns its texts; a table names its fields. Pure; any thread.
 */
#ifndef CONTROLLER_SECRET_H
#define CONTROLLER_SECRET_H

#include <jansson.h>
#include <stddef.h>

struct secret_field {
	const char *key; /* key in the Secret's data; NULL ends the table */
	size_t at;       /* offset of the text's char * in the store */
};

/*
 * Decodes a value of a Secret's data to text, owned by the caller; NULL: `text` is NULL or no
 * base64.
 */
char *secret_decode(const char *text);
/*
 * The reverse of secret_decode(). For NULL it returns JSON null, which removes the value. Returns
 * NULL if memory is exhausted.
 */
json_t *secret_encode(const char *pem);

/* Fills an empty store; absent texts become NULL. `secret` may be NULL. */
void secret_read(const json_t *secret, const struct secret_field *fields, void *ret_store);

/*
 * Returns a merge patch that sets `data`, valid only for this version of the object. NULL: no
 * memory.
 */
json_t *secret_patch_data(const json_t *object, json_t *data);
/* Like secret_patch_data(), with all texts of the store. */
json_t *secret_patch(const json_t *secret, const struct secret_field *fields, const void *store);

#endif
