/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grant log: grants to containers, their changes and their ends. Each entry is a JSON object on
 * one line, appended by one write. Unlike GPUNode.status, the log also has grants that were in
 * force only for a moment, so an audit can add up all grants. A restarted daemon first writes a
 * line "kept" for each grant that it still has.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/device.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "node/node-internal.h"

/* If a write was cut short, removes the partial line, because the next line would continue it. */
static int node_log_add_line(int fd, struct str line)
{
	const int64_t size = fd_size(fd);
	int r = size < 0 ? (int)size : fd_write_all(fd, line.p, line.n);

	if (r < 0 && size >= 0 && ftruncate(fd, (off_t)size) < 0)
		log_warn("grant log: cannot remove a partial line: %s", strerror(errno));
	return r;
}

static void node_log_append(const char *path, json_t *line)
{
	_cleanup_free_ char *text = json_dumps(line, JSON_COMPACT);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	_cleanup_buf_ struct buf b = BUF_INIT(1 << 16);
	int r;

	if (!text || fd < 0) {
		log_warn("grant log '%s': %s", path, strerror(text ? errno : ENOMEM));
		return;
	}
	buf_addf(&b, "%s\n", text);
	r = node_log_add_line(fd, buf_str(&b));
	if (r < 0)
		log_warn("grant log '%s': a line is missing: %s", path, strerror(-r));
}

void node_log(const struct node *node, const char *what, const struct tenant *t)
{
	_cleanup_json_ json_t *line = NULL;
	json_t *devices, *memory;

	if (!node->options.grant_log)
		return;
	devices = json_array();
	memory = json_array();
	for (uint32_t i = 0; i < t->n; i++) {
		json_array_append_new(devices, json_string(t->devices[i].device->info.uuid));
		json_array_append_new(memory, json_integer((json_int_t)t->devices[i].quota_bytes));
	}
	line = json_pack("{s:I, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:i, s:i, s:o, s:s, s:I}",
		"at", (json_int_t)clock_real_ns(), "what", what, "daemon", (int)getpid(), "podUID",
		t->pod->uid, "namespace", t->pod->space, "pod", t->pod->name, "container",
		t->pod->container, "slot", t->pod->slot, "devices", devices, "request",
		(int)t->spec.request, "limit", (int)t->spec.limit, "memoryBytes", memory, "mode",
		t->spec.mode == SPEC_MODE_REMOTE ? "remote"
			: t->spec.exclusive      ? "exclusive"
						 : "local",
		"epoch", (json_int_t)t->pod->epoch);
	node_log_append(node->options.grant_log, line);
}
