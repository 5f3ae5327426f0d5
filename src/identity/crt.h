/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads certificates and keys from PEM, and checks their relations. Times are CLOCK_REALTIME
 * nanoseconds from the caller; no clock is read. Unreadable input counts as missing; there are no
 * errors. Any thread.
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
/* a certificate's validity begins this long before its creation, for clocks that differ */
#define CRT_EARLY_NS (UINT64_C(300) * 1000000000)

/*
 * Reads at most CRT_LIST_MAX certificates and returns their number; 0 if there are none or the text
 * is faulty. The caller ends them with crt_list_done().
 */
unsigned int crt_list_read(const char *pem, gnutls_x509_crt_t list[CRT_LIST_MAX]);
void crt_list_done(gnutls_x509_crt_t *list, unsigned int n);

/* NULL if there is no readable key. The caller ends it with gnutls_x509_privkey_deinit(). */
gnutls_x509_privkey_t crt_key_read(const char *pem);

/* Whether the key belongs to the certificate. */
bool crt_is_pair(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key);

/* Start and end of the validity period; CLOCK_NEVER and 0 if unreadable. */
uint64_t crt_begins_ns(gnutls_x509_crt_t crt);
uint64_t crt_ends_ns(gnutls_x509_crt_t crt);
bool crt_holds(gnutls_x509_crt_t crt, uint64_t real_ns);
/* Time since the certificate was made: CRT_EARLY_NS after its period begins. 0 before that. */
uint64_t crt_age_ns(gnutls_x509_crt_t crt, uint64_t real_ns);
/* Whether at most a third of the certificate's lifetime length_ns is left. */
bool crt_is_running_out(gnutls_x509_crt_t crt, uint64_t length_ns, uint64_t real_ns);

/* Checks the signature and ignores validity periods. */
bool crt_is_signed_by(gnutls_x509_crt_t crt, gnutls_x509_crt_t authority);

/* Appends the certificate as PEM. Returns 0, -EIO or the buf's error. */
int crt_format(gnutls_x509_crt_t crt, struct buf *out);

#endif
