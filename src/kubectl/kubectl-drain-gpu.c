/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy drain-gpu`: cordons a device and evicts its tenants. No controller recreates
 * a bare pod: without --force one such tenant makes the command fail before any change. After the
 * cordon the command lists the pods again, since the scheduler may have placed one meanwhile. A
 * bare pod among those stays, and the command's exit status says that the device is not drained. A
 * dry run changes nothing: the server checks each eviction without carrying it out.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cmdline/json-member.h"
#include "kubectl/kubectl-commands.h"
#include "kubectl/cordon-patch.h"
#include "kubectl/evict.h"
#include "kubectl/kubectl-text.h"
#include "kubectl/report.h"

#define TIMEOUT_NS (600 * NSEC_PER_SEC)
#define GRACE_MAX 86400

static const struct option_row options[] = {
	{"reason", "TEXT", "note that is shown with the device"},
	{"timeout", "TIME", "time limit for evictions (default 10m)"},
	{"grace-period", "SECONDS",
		"grace period in seconds instead of each pod's own: 0 to 86400"},
	{"force", NULL, "also evict pods that no controller recreates"},
	{"dry-run", NULL, "print which pods would be evicted and change nothing"},
	ACCESS_OPTIONS,
	{0},
};

static int kubectl_drain_read_options(
	const struct cli_args *args, struct evict_options *ret, struct error *err)
{
	static const uint64_t bounds[2] = {1 * NSEC_PER_SEC, 7 * 86400 * NSEC_PER_SEC};
	const char *grace = cli_get(args, "grace-period");
	uint64_t seconds = 0;
	int r = 0;

	*ret = (struct evict_options){.grace_s = -1, .is_dry_run = cli_has(args, "dry-run")};
	if (grace)
		r = parse_uint(str_from(grace), 0, GRACE_MAX, &seconds, err);
	if (r < 0)
		return fail_within(err, r, "--grace-period");
	if (grace)
		ret->grace_s = (int64_t)seconds;
	return cli_get_duration_within(args, "timeout", TIMEOUT_NS, bounds, &ret->timeout_ns, err);
}

#define NAMED 4

/* Fails with a message that names the first NAMED of the bare pods. */
static int fail_bare(const json_t *bare, struct error *err)
{
	const size_t n = json_array_size(bare);
	_cleanup_buf_ struct buf names = BUF_INIT(NAMED * 320);

	for (size_t i = 0; i < n && i < NAMED; i++) {
		const json_t *metadata = json_object_get(json_array_get(bare, i), "metadata");

		buf_addf(&names, "%s%s/%s", i ? ", " : "",
			json_text_or_empty(metadata, "namespace"),
			json_text_or_empty(metadata, "name"));
	}
	if (n > NAMED)
		buf_addf(&names, " and %zu more", n - NAMED);
	return fail(err, EPERM,
		"pod%s %.300s: no controller would recreate %s, so nothing was changed; --force "
		"evicts %s",
		n == 1 ? "" : "s", buf_text(&names), n == 1 ? "it" : "them",
		n == 1 ? "it" : "them");
}

/*
 * Takes the bare pods off the list *tenants, so they are not evicted, and prints their names.
 * Returns whether there were bare pods.
 */
static bool hold_bare(json_t **tenants)
{
	_cleanup_json_ json_t *bare = evict_made(*tenants, false);
	json_t *made = evict_made(*tenants, true);

	for (size_t i = 0; i < json_array_size(bare); i++) {
		const json_t *metadata = json_object_get(json_array_get(bare, i), "metadata");

		printf("%s/%s: no controller would recreate it; --force evicts it\n",
			json_text_or_empty(metadata, "namespace"),
			json_text_or_empty(metadata, "name"));
	}
	json_decref(*tenants);
	*tenants = made;
	return json_array_size(bare) > 0;
}

static int kubectl_drain_device(struct access *a, const struct cli_args *args,
	const struct evict_options *evict, struct error *err)
{
	_cleanup_json_ json_t *nodes = NULL, *pods = NULL, *tenants = NULL, *bare = NULL;
	const char *reason = cli_get(args, "reason");
	const bool is_forced = cli_has(args, "force");
	bool is_held = false;
	struct report_found found;
	int r = access_gpunodes(a, &nodes, err);

	r = r < 0 ? r : report_find_device(nodes, args->operand[0], &found, err);
	r = r < 0 ? r : access_pods(a, NULL, &pods, err);
	if (r < 0)
		return r;
	tenants = evict_tenants_of(nodes, pods, found.uuid);
	bare = evict_made(tenants, false);
	if (json_array_size(bare) && !is_forced && !evict->is_dry_run)
		return fail_bare(bare, err);
	if (!evict->is_dry_run) {
		r = cordon_set(a, found.node, found.uuid, true, reason ? reason : "drained", err);
		if (r < 0)
			return r;
		printf("%s/%s %scordoned\n", found.node, found.uuid, r ? "" : "was already ");
		/*
		 * The scheduler may have placed a pod, even a bare one, on the device just before
		 * the cordon.
		 */
		json_decref(TAKE_PTR(pods));
		json_decref(TAKE_PTR(tenants));
		r = access_pods(a, NULL, &pods, err);
		if (r < 0)
			return r;
		tenants = evict_tenants_of(nodes, pods, found.uuid);
	}
	if (!is_forced)
		is_held = hold_bare(&tenants);
	r = evict_pods(a, tenants, evict, err);
	if (r == 0)
		printf("%s/%s %s\n", found.node, found.uuid,
			evict->is_dry_run ? is_held ? "would not be drained without --force"
						    : "would be drained"
				: is_held ? "is not drained without --force"
					  : "drained");
	return r > 0 || (r == 0 && is_held) ? KUBECTL_EXIT_NO : r;
}

static int kubectl_drain_run(const struct cli_args *args, struct error *err)
{
	_cleanup_access_ struct access a = {.loop = NULL};
	struct evict_options evict;
	int r = kubectl_drain_read_options(args, &evict, err);

	r = r < 0 ? r : access_open(args, &a, err);
	return r < 0 ? r : kubectl_drain_device(&a, args, &evict, err);
}

static int kubectl_drain_check(const struct cli_args *args, struct error *err)
{
	struct evict_options evict;

	return kubectl_drain_read_options(args, &evict, err);
}

const struct cli_command cmd_drain_gpu = {
	.name = "drain-gpu",
	.operands = "NODE/UUID",
	.summary = "Take a device out of service: cordon it, then evict its tenants",
	.text = TEXT_DRAIN_GPU_TEXT,
	.examples = TEXT_DRAIN_GPU_EXAMPLES,
	.exit_status = TEXT_DRAIN_GPU_EXIT_STATUS,
	.options = options,
	.operands_min = 1,
	.operands_max = 1,
	.check = kubectl_drain_check,
	.run = kubectl_drain_run,
};
