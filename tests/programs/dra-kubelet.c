/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a DRA driver as a kubelet does, for tests that need more requests than pods make.
 *
 *   dra-kubelet FOLDER prepare NAMESPACE NAME UID
 *       prints a line "REQUEST POOL DEVICE SHARE-ID CDI-NAME" for each device of the claim
 *   dra-kubelet FOLDER unprepare NAMESPACE NAME UID
 *   dra-kubelet FOLDER cycles N NAMESPACE NAME UID
 *       prepares and unprepares N times, and prints the times of prepare in microseconds:
 *       "median p99 most"
 *
 * FOLDER has the driver's socket. Exits with 1 and the driver's sentence if the driver refuses.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/parse.h"
#include "kubelet/dra.pb-c.h"
#include "kubelet/grpc-client.h"
#include "kubelet/unpack.h"

#define SERVICE "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
#define TIMEOUT_NS (45 * NSEC_PER_SEC) /* as the kubelet's */

static struct loop *loop;
static char socket_path[PATH_MAX];

static struct {
	bool is_prepare, is_quiet;
	int result;
	char text[1024];
} answer;

static int find_socket(const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (strstr(entry->d_name, ".sock"))
			snprintf(socket_path, sizeof(socket_path), "%s/%s", folder, entry->d_name);
	closedir(dir);
	return socket_path[0] ? 0 : -ENOENT;
}

static void take_prepared(struct str message)
{
	_cleanup_message_ Dra__PrepareResponse *m = unpack(
		&dra__prepare_response__descriptor, message);
	const Dra__PreparedClaim *claim = m && m->n_claims == 1 ? m->claims[0]->value : NULL;

	answer.result = claim && !claim->error[0] ? 0 : -EIO;
	snprintf(answer.text, sizeof(answer.text), "%s", claim ? claim->error : "no claim");
	for (size_t i = 0; claim && !answer.is_quiet && i < claim->n_devices; i++) {
		const Dra__Device *d = claim->devices[i];

		printf("%s %s %s %s %s\n", d->n_request_names ? d->request_names[0] : "-",
			d->pool_name, d->device_name, d->share_id[0] ? d->share_id : "-",
			d->n_cdi_device_ids ? d->cdi_device_ids[0] : "-");
	}
}

static void take_unprepared(struct str message)
{
	_cleanup_message_ Dra__UnprepareResponse *m = unpack(
		&dra__unprepare_response__descriptor, message);
	const Dra__UnpreparedClaim *claim = m && m->n_claims == 1 ? m->claims[0]->value : NULL;

	answer.result = claim && !claim->error[0] ? 0 : -EIO;
	snprintf(answer.text, sizeof(answer.text), "%s", claim ? claim->error : "no claim");
}

static void on_answer(const struct grpc_answer *a)
{
	if (a->status != GRPC_OK) {
		answer.result = -EIO;
		snprintf(answer.text, sizeof(answer.text), "%s: %s", grpc_status_name(a->status),
			a->text);
	} else if (answer.is_prepare) {
		take_prepared(a->message);
	} else {
		take_unprepared(a->message);
	}
	loop_stop(loop, 1);
}

static int ask(bool is_prepare, bool is_quiet, char **claim_words)
{
	Dra__PrepareRequest request = DRA__PREPARE_REQUEST__INIT;
	Dra__Claim claim = DRA__CLAIM__INIT, *claims[] = {&claim};
	_cleanup_buf_ struct buf message = {0};
	struct grpc_call_params params = {
		.socket = socket_path,
		.path = is_prepare ? SERVICE "NodePrepareResources"
				   : SERVICE "NodeUnprepareResources",
		.timeout_ns = TIMEOUT_NS,
		.answered = on_answer,
	};
	struct grpc_request *call;
	struct error err;

	claim.namespace_name = claim_words[0];
	claim.name = claim_words[1];
	claim.uid = claim_words[2];
	request.claims = claims;
	request.n_claims = 1;
	answer.is_prepare = is_prepare;
	answer.is_quiet = is_quiet;
	if (pack(&request.base, &message) < 0)
		return -ENOMEM;
	params.message = buf_str(&message);
	if (grpc_request_new(loop, &params, &call, &err) < 0) {
		snprintf(answer.text, sizeof(answer.text), "%s", err.msg);
		return -EIO;
	}
	loop_run(loop);
	return answer.result;
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int cycle(size_t n, char **claim_words)
{
	_cleanup_free_ uint64_t *took = calloc(n + 1, sizeof(*took));
	int r = took ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		const uint64_t begin = clock_now_ns();

		r = ask(true, true, claim_words);
		took[i] = (clock_now_ns() - begin) / NSEC_PER_USEC;
		r = r < 0 ? r : ask(false, true, claim_words);
	}
	if (r < 0)
		return r;
	qsort(took, n, sizeof(*took), compare);
	printf("%llu %llu %llu\n", (unsigned long long)took[n / 2],
		(unsigned long long)took[n * 99 / 100], (unsigned long long)took[n - 1]);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t n = 0;
	int r;

	if (argc < 6 || loop_new(&loop) < 0 || find_socket(argv[1]) < 0) {
		fprintf(stderr, "dra-kubelet: no driver there, or too few words\n");
		return 2;
	}
	if (!strcmp(argv[2], "cycles") && argc == 7 &&
		parse_uint(str_from(argv[3]), 1, 1000000, &n, NULL) >= 0)
		r = cycle(n, argv + 4);
	else
		r = ask(!strcmp(argv[2], "prepare"), false, argv + 3);
	if (r < 0)
		fprintf(stderr, "dra-kubelet: %s\n", answer.text);
	loop_free(loop);
	return r < 0;
}
