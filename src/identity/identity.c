/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file copies identities, passes them to other processes, and checks them. identity_to_fd()
 * writes the three texts into a sealed memfd, a NUL behind each. identity_from_fd() reads from
 * offset 0 with pread(), so several processes can read one descriptor. The functions wipe each copy
 * of the texts before they free the copy. identity_check_crt() accepts an authority only if the
 * authority's certificate holds at that time.
 */
#include "identity/identity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "identity/crt.h"
#include "identity/identity-tls.h"

/* The memfd contains crt, key and authority, each with its final NUL. */
#define TEXTS 3u
#define TEXTS_MAX (TEXTS * (CRT_PEM_MAX + 1))

void identity_done(struct identity *identity)
{
	str_wipe(&identity->crt);
	str_wipe(&identity->key);
	str_wipe(&identity->authority);
}

int identity_copy(const struct identity *identity, struct identity *ret_identity)
{
	struct identity copy = {str_dup(str_from(identity->crt)), str_dup(str_from(identity->key)),
		str_dup(str_from(identity->authority))};

	if (!copy.crt || !copy.key || !copy.authority) {
		identity_done(&copy);
		return -ENOMEM;
	}
	*ret_identity = copy;
	return 0;
}

int identity_to_fd(const struct identity *identity)
{
	const char *const text[TEXTS] = {identity->crt, identity->key, identity->authority};
	_cleanup_close_ int fd = memfd_new("divvy-identity", 0);
	int r = fd;

	for (unsigned int i = 0; r >= 0 && i < TEXTS; i++)
		r = strlen(text[i]) > CRT_PEM_MAX ? -EMSGSIZE
						  : fd_write_all(fd, text[i], strlen(text[i]) + 1);
	if (r >= 0)
		r = memfd_seal(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	return r < 0 ? r : TAKE_FD(fd);
}

static int read_at(int fd, char *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		const ssize_t r = pread(fd, p + done, n - done, (off_t)done);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? -errno : -EPIPE;
		done += (size_t)r;
	}
	return 0;
}

int identity_from_fd(int fd, struct identity *ret_identity, struct error *err)
{
	const int64_t size = fd_size(fd);
	_cleanup_identity_ struct identity new = {0};
	char **const text[TEXTS] = {&new.crt, &new.key, &new.authority};
	struct str rest;
	unsigned int n = 0;
	char *all;
	int r;

	if (size <= 0 || size > (int64_t)TEXTS_MAX)
		return fail(err, EINVAL, "the identity has %lld bytes; expected 1 to %u",
			(long long)size, TEXTS_MAX);
	all = malloc((size_t)size);
	if (!all)
		return fail(err, ENOMEM, "out of memory");
	r = read_at(fd, all, (size_t)size);
	if (r < 0)
		fail_errno(err, -r, "read the identity");
	rest = (struct str){all, (size_t)size - 1};
	for (struct str piece; r == 0 && n < TEXTS && str_split(&rest, '\0', &piece); n++) {
		*text[n] = str_dup(piece);
		if (!*text[n])
			r = fail(err, ENOMEM, "out of memory");
	}
	if (r == 0 && (n != TEXTS || rest.p || all[size - 1]))
		r = fail(err, EINVAL,
			"the identity is malformed; expected certificate, key and authorities, "
			"each with a NUL at its end");
	explicit_bzero(all, (size_t)size);
	free(all);
	if (r < 0)
		return r;
	*ret_identity = new;
	new = (struct identity){0};
	return 0;
}

static int identity_check_crt(gnutls_x509_crt_t crt, const struct identity *identity,
	uint64_t real_ns, struct identity_facts *ret_facts, struct error *err)
{
	gnutls_x509_privkey_t key = crt_key_read(identity->key);
	const bool is_pair = key && crt_is_pair(crt, key);
	gnutls_x509_crt_t authority[CRT_LIST_MAX];
	unsigned int n = crt_list_read(identity->authority, authority), i = 0;
	struct identity_facts facts = {.from_ns = crt_begins_ns(crt), .to_ns = crt_ends_ns(crt)};
	int r = identity_crt_name(crt, &facts.name, err);

	if (key)
		gnutls_x509_privkey_deinit(key);
	while (i < n && !(crt_holds(authority[i], real_ns) && crt_is_signed_by(crt, authority[i])))
		i++;
	crt_list_done(authority, n);
	if (r < 0)
		return r;
	if (!is_pair)
		return fail(err, EINVAL, "the key is missing or belongs to another certificate");
	if (!crt_holds(crt, real_ns))
		return fail(err, EKEYEXPIRED, "the certificate is not valid at this time");
	if (i == n)
		return fail(err, EKEYREJECTED,
			"none of %u authorities that are valid now has signed the certificate", n);
	*ret_facts = facts;
	return 0;
}

int identity_check(const struct identity *identity, uint64_t real_ns,
	struct identity_facts *ret_facts, struct error *err)
{
	gnutls_x509_crt_t crt[CRT_LIST_MAX];
	const unsigned int n = crt_list_read(identity->crt, crt);
	int r = n == 1 ? identity_check_crt(crt[0], identity, real_ns, ret_facts, err)
		       : fail(err, EINVAL, "%u certificates; expected one", n);

	crt_list_done(crt, n);
	return r;
}
