/* SPDX-License-Identifier: Apache-2.0 */
/* TLS over TCP as a stream: how GnuTLS wants to be called. */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdint.h>

#include "remote/stream.h"

/* To be called once more with the very same arguments. */
static bool is_to_repeat(ssize_t said)
{
	return said == GNUTLS_E_AGAIN || said == GNUTLS_E_INTERRUPTED;
}

static int tls_send(struct stream s, const void *p, size_t n)
{
	while (n) {
		const ssize_t done = gnutls_record_send(s.own, p, n);

		if (is_to_repeat(done))
			continue;
		if (done <= 0)
			return -EPIPE;
		p = (const uint8_t *)p + done;
		n -= (size_t)done;
	}
	return 0;
}

static int tls_receive(struct stream s, void *p, size_t n)
{
	while (n) {
		const ssize_t done = gnutls_record_recv(s.own, p, n);

		if (is_to_repeat(done))
			continue;
		if (done <= 0)
			return -EPIPE;
		p = (uint8_t *)p + done;
		n -= (size_t)done;
	}
	return 0;
}

struct stream stream_tls(gnutls_session_t tls)
{
	static const struct stream_kind kind = {.send = tls_send, .receive = tls_receive};

	return (struct stream){&kind, tls};
}
