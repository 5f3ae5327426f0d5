/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods and translations as short text, for tables of tests and for the fuzzer. A pod is lines:
 *
 *   a KEY=VALUE   annotation          c NAME [init|sidecar]   container, followed by:
 *   l KEY=VALUE   label               r KEY=VALUE   resource, as request and as limit
 *   n NODE        spec.nodeName       q KEY=VALUE, m KEY=VALUE   only as one of them
 *   d LIST        dialects that       e NAME=VALUE  environment
 *                 are switched on     g NAME        spec.schedulingGroup.podGroupName
 *
 * The parser skips other lines, and lines that do not fit.
 */
#ifndef TESTS_UNIT_SPEC_MANIFEST_TEXT_H
#define TESTS_UNIT_SPEC_MANIFEST_TEXT_H

#include "spec/dialect.h"
#include "spec/manifest.h"

#define MANIFEST_TEXT_CONTAINERS 80u
#define MANIFEST_TEXT_ENTRIES 24u

struct manifest_text {
	struct manifest pod;
	struct manifest_container container[MANIFEST_TEXT_CONTAINERS];
	struct manifest_entry labels[MANIFEST_TEXT_ENTRIES], annotations[MANIFEST_TEXT_ENTRIES];
	struct manifest_entry requests[MANIFEST_TEXT_CONTAINERS][MANIFEST_TEXT_ENTRIES];
	struct manifest_entry limits[MANIFEST_TEXT_CONTAINERS][MANIFEST_TEXT_ENTRIES];
	struct manifest_entry env[MANIFEST_TEXT_CONTAINERS][MANIFEST_TEXT_ENTRIES];
	struct str dialects;
};

/*
 * Parses the text; the result borrows from it. Without a 'c' line there is one container, "main".
 */
void manifest_text_parse(struct str text, struct manifest_text *ret);

/*
 * Appends "main request=0.5 limit=1 memory=1Gi; group=a 5 0.2; vgpu=abcde; -main/nvidia.com/gpu=1".
 * Other fields than request and limit are left out if they have their default.
 */
void manifest_text_show(
	const struct manifest *pod, const struct dialect_result *result, struct buf *out);

#endif
