/* SPDX-License-Identifier: Apache-2.0 */
/* A certificate of one's own, for what is served until somebody gives a better one. */
#ifndef SCHEDULER_CERTIFICATE_H
#define SCHEDULER_CERTIFICATE_H

#include "base/error.h"

/* PEM texts, the caller's, for free(). Signed by its own key; a year from now. */
int certificate_make(const char *name, char **ret_cert, char **ret_key, struct error *err);

#endif
