/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions as Semantic Versioning 2.0.0 defines them, for attributes of devices. Pure; any thread.
 */
#ifndef CLAIMS_SEMVER_H
#define CLAIMS_SEMVER_H

#include <stdint.h>

#include "base/str.h"

#define SEMVER_TEXT_MAX 256u

struct semver {
	uint64_t part[3];  /* major, minor, patch */
	struct str before; /* pre-release without its '-'; borrowed from the parsed text */
};

/* -EINVAL: the text is no version. The build metadata after '+' is checked and dropped. */
int semver_parse(struct str text, struct semver *ret_version);

/*
 * Like semver_parse(), but also reads "v1", "1.2" and "01.2.3". Writes the text of the version to
 * `room`, from which *ret_version borrows.
 */
int semver_parse_loosely(
	struct str text, char room[static SEMVER_TEXT_MAX], struct semver *ret_version);

/* -1, 0 or 1 by precedence. */
int semver_compare(const struct semver *a, const struct semver *b);

#endif
