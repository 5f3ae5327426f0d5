/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/wire.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdint.h>

/* To be called once more with the very same arguments. */
static bool is_to_repeat(ssize_t said)
{
	return said == GNUTLS_E_AGAIN || said == GNUTLS_E_INTERRUPTED;
}

int wire_send(gnutls_session_t tls, const void *p, size_t n)
{
	while (n) {
		const ssize_t done = gnutls_record_send(tls, p, n);

		if (is_to_repeat(done))
			continue;
		if (done <= 0)
			return -EPIPE;
		p = (const uint8_t *)p + done;
		n -= (size_t)done;
	}
	return 0;
}

int wire_receive(gnutls_session_t tls, void *p, size_t n)
{
	while (n) {
		const ssize_t done = gnutls_record_recv(tls, p, n);

		if (is_to_repeat(done))
			continue;
		if (done <= 0)
			return -EPIPE;
		p = (uint8_t *)p + done;
		n -= (size_t)done;
	}
	return 0;
}
