/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a DRA driver as a kubelet does, for tests that need more requests than pods make.
 *
 *   dra-kubelet REGISTRY register VERSION...
 *       registers the driver as a kubelet that knows these versions of services, and prints a line
 *       "DRIVER ENDPOINT VERSION" with the first of the driver's versions that the kubelet knows
 *   dra-kubelet FOLDER prepare NAMESPACE NAME UID
 *       prints a line "REQUEST POOL DEVICE SHARE-ID CDI-NAME" for each device of the claim
 *   dra-kubelet FOLDER unprepare NAMESPACE NAME UID
 *   dra-kubelet FOLDER cycles N NAMESPACE NAME UID
 *       prepares and unprepares N times, and prints the times of prepare in microseconds:
 *       "median p99 most"
 *
 * FOLDER has the driver's socket, or is the path of the socket. With DRA_KUBELET_VERSION=v1beta1 in
 * the environment, requests are of that version instead of v1. Exits with 1 and the driver's
 * sentence if the driver refuses.
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

#define SERVICE "/k8s.io.kubelet.pkg.apis.dra.%s.DRAPlugin/%s"
#define REGISTRATION "/pluginregistration.Registration/"
#define TIMEOUT_NS (45 * NSEC_PER_SEC) /* as the kubelet's */

static struct loop *loop;
static char socket_path[PATH_MAX];

static struct {
	void (*take)(struct str message);
	bool is_quiet;
	int result;
	char text[1024];
} answer;

static int find_socket(const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;

	if (!dir && errno == ENOTDIR)
		return snprintf(socket_path, sizeof(socket_path), "%s", folder) > 0 ? 0 : -EINVAL;
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
	} else {
		answer.take(a->message);
	}
	loop_stop(loop, 1);
}

/* Sends the message, and has `take` read the answer. */
static int send_message(
	const char *path, const ProtobufCMessage *request, void (*take)(struct str message))
{
	_cleanup_buf_ struct buf message = {0};
	struct grpc_call_params params = {
		.socket = socket_path,
		.path = path,
		.timeout_ns = TIMEOUT_NS,
		.answered = on_answer,
	};
	struct grpc_request *call;
	struct error err;

	answer.take = take;
	if (pack(request, &message) < 0)
		return -ENOMEM;
	params.message = buf_str(&message);
	if (grpc_request_new(loop, &params, &call, &err) < 0) {
		snprintf(answer.text, sizeof(answer.text), "%s", err.msg);
		return -EIO;
	}
	loop_run(loop);
	return answer.result;
}

static int ask(bool is_prepare, bool is_quiet, char **claim_words)
{
	const char *version = getenv("DRA_KUBELET_VERSION");
	Dra__PrepareRequest request = DRA__PREPARE_REQUEST__INIT;
	Dra__Claim claim = DRA__CLAIM__INIT, *claims[] = {&claim};
	char path[128];

	claim.namespace_name = claim_words[0];
	claim.name = claim_words[1];
	claim.uid = claim_words[2];
	request.claims = claims;
	request.n_claims = 1;
	answer.is_quiet = is_quiet;
	snprintf(path, sizeof(path), SERVICE, version ? version : "v1",
		is_prepare ? "NodePrepareResources" : "NodeUnprepareResources");
	return send_message(path, &request.base, is_prepare ? take_prepared : take_unprepared);
}

/* ---- registration ---- */

static char **known_versions; /* of the kubelet; ends with NULL */
static char chosen[64];

static void take_info(struct str message)
{
	_cleanup_message_ Dra__PluginInfo *m = unpack(&dra__plugin_info__descriptor, message);

	answer.result = m && !strcmp(m->type, "DRAPlugin") ? 0 : -EIO;
	snprintf(answer.text, sizeof(answer.text), "no driver answers");
	for (size_t i = 0; m && !chosen[0] && i < m->n_supported_versions; i++)
		for (char **known = known_versions; *known; known++)
			if (!strcmp(*known, m->supported_versions[i])) {
				snprintf(chosen, sizeof(chosen), "%s", *known);
				break;
			}
	if (answer.result == 0)
		printf("%s %s %s\n", m->name, m->endpoint, chosen[0] ? chosen : "-");
}

static void take_nothing(struct str message)
{
	answer.result = 0;
}

static int register_driver(char **versions)
{
	Dra__PrepareRequest empty = DRA__PREPARE_REQUEST__INIT;
	Dra__RegistrationStatus status = DRA__REGISTRATION_STATUS__INIT;
	int r;

	known_versions = versions;
	/* A request without fields is an empty message, whatever its type. */
	r = send_message(REGISTRATION "GetInfo", &empty.base, take_info);
	if (r < 0)
		return r;
	status.plugin_registered = chosen[0] != '\0';
	if (!chosen[0])
		status.error = (char *)(uintptr_t) "the kubelet knows none of the versions";
	return send_message(REGISTRATION "NotifyRegistrationStatus", &status.base, take_nothing);
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

	if (argc < 4 || (argc < 6 && strcmp(argv[2], "register")) || loop_new(&loop) < 0 ||
		find_socket(argv[1]) < 0) {
		fprintf(stderr, "dra-kubelet: no driver there, or too few words\n");
		return 2;
	}
	if (!strcmp(argv[2], "register"))
		r = register_driver(argv + 3);
	else if (!strcmp(argv[2], "cycles") && argc == 7 &&
		parse_uint(str_from(argv[3]), 1, 1000000, &n, NULL) >= 0)
		r = cycle(n, argv + 4);
	else
		r = ask(!strcmp(argv[2], "prepare"), false, argv + 3);
	if (r < 0)
		fprintf(stderr, "dra-kubelet: %s\n", answer.text);
	loop_free(loop);
	return r < 0;
}
