/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 as JSON carries bytes: with padding; white space between is ignored when read. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/str.h"

/* Appends the bytes; -EINVAL when it is none, else the buf's error. */
int base64_decode(struct str text, struct buf *out);

int base64_encode(struct str bytes, struct buf *out);

#endif
