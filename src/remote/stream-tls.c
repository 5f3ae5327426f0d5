/* SPDX-License-Identifier: Apache-2.0 */
/* TLS over TCP as a stream: how GnuTLS wants to be called. */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
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
	uint64_t heard = clock_now_ns();

	while (n) {
		const ssize_t done = gnutls_record_recv(s.own, p, n);

		/* It also says so of what TLS says for itself. */
		if (done == GNUTLS_E_AGAIN && s.silent_ms &&
			clock_now_ns() - heard > s.silent_ms * NSEC_PER_MSEC)
			return -ETIMEDOUT;
		if (is_to_repeat(done))
			continue;
		if (done <= 0)
			return -EPIPE;
		p = (uint8_t *)p + done;
		n -= (size_t)done;
		heard = clock_now_ns();
	}
	return 0;
}

struct stream stream_tls(gnutls_session_t tls, unsigned silent_ms)
{
	static const struct stream_kind kind = {.send = tls_send, .receive = tls_receive};
	/* So often is looked how long it has been. */
	const struct timeval look = {.tv_sec = silent_ms ? 1 : 0};

	setsockopt(gnutls_transport_get_int(tls), SOL_SOCKET, SO_RCVTIMEO, &look, sizeof(look));
	return (struct stream){&kind, tls, silent_ms};
}
