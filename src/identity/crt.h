/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates and keys out of PEM, and what holds between them. Times are CLOCK_REALTIME's: no
 * clock is read. What cannot be read is not there: no errors. Any thread.
 */
#ifndef IDENTITY_CRT_H
#define IDENTITY_CRT_H

#include <stdbool.h>
#include <stdint.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/str.h"

#define CRT_LIST_MAX 4u
#define CRT_PEM_MAX (64u << 10)
#define CRT_EARLY_NS (UINT64_C(300) * 1000000000) /* before it was made, for clocks that differ */

/* At most CRT_LIST_MAX; 0: none, or something is wrong. The caller's: crt_list_done(). */
unsigned int crt_list_read(const char *pem, gnutls_x509_crt_t list[CRT_LIST_MAX]);
void crt_list_done(gnutls_x509_crt_t *list, unsigned int n);

/* NULL: there is none. The caller's: gnutls_x509_privkey_deinit(). */
gnutls_x509_privkey_t crt_key_read(const char *pem);

/* Is it the certificate's key? */
bool crt_is_pair(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key);

/* CLOCK_NEVER and 0 where it does not say. */
uint64_t crt_begins_ns(gnutls_x509_crt_t crt);
uint64_t crt_ends_ns(gnutls_x509_crt_t crt);
bool crt_holds(gnutls_x509_crt_t crt, uint64_t real_ns);
/* Since it was made, CRT_EARLY_NS after it begins. */
uint64_t crt_age_ns(gnutls_x509_crt_t crt, uint64_t real_ns);
/* A third of its length, or less, is left. */
bool crt_is_running_out(gnutls_x509_crt_t crt, uint64_t length_ns, uint64_t real_ns);

/* Whenever that was. */
bool crt_is_signed_by(gnutls_x509_crt_t crt, gnutls_x509_crt_t authority);

/* Appends it as PEM. */
int crt_format(gnutls_x509_crt_t crt, struct buf *out);

#endif
