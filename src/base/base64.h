/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 as JSON carries bytes: with padding. The decoder skips white space. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/str.h"

/* Appends the decoded bytes. Returns 0, -EINVAL if the text is not Base64, or the buf's error. */
int base64_decode(struct str text, struct buf *out);

int base64_encode(struct str bytes, struct buf *out);

#endif
