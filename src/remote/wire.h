/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes over one connection of TLS, in order and all of them: how GnuTLS wants to be called. Blocks.
 * One thread may send while another one receives.
 */
#pragma once

#include <stddef.h>

struct gnutls_session_int;

/* 0, or -EPIPE when the other side is gone. */
int wire_send(struct gnutls_session_int *tls, const void *p, size_t n);
/* Exactly n bytes, likewise. */
int wire_receive(struct gnutls_session_int *tls, void *p, size_t n);
