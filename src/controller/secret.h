/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of a struct, such as keys and certificates, as the data of a Secret. A store is a struct of
 * char *, each one its own: where a field stands, says a table. Pure; any thread.
 */
#ifndef CONTROLLER_SECRET_H
#define CONTROLLER_SECRET_H

#include <jansson.h>
#include <stddef.h>

struct secret_field {
	const char *key; /* of the data; NULL ends the table */
	size_t at;       /* of its char * in the store */
};

/* A value of a Secret's data as PEM, the caller's; NULL: none, or it is no base64. */
char *secret_decode(const char *text);
/* ... and back; null, which takes it out, for NULL. NULL: no memory. */
json_t *secret_encode(const char *pem);

/* Fills an empty store; NULL in it: the Secret, which may be NULL, has no such text. */
void secret_read(const json_t *secret, const struct secret_field *fields, void *ret_store);

/* A merge patch of data, for the version of the object that was read. NULL: no memory. */
json_t *secret_patch_data(const json_t *object, json_t *data);
/* ... of all that is in the store. */
json_t *secret_patch(const json_t *secret, const struct secret_field *fields, const void *store);

#endif
