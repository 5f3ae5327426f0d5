/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTPS endpoints, on the loop. /healthz and /readyz are open. /metrics requires a user that
 * the API server knows (TokenReview) and allows to get /metrics (SubjectAccessReview). /extender/
 * requires a client certificate of --client-ca; without that option it is closed.
 */
#ifndef SCHEDULER_SCHEDULER_SERVE_H
#define SCHEDULER_SCHEDULER_SERVE_H

#include "access/access-page.h"

struct service;

/* Serves by the service's options. Returns 0 with *ret_page NULL if --listen is missing. */
int serve_new(struct service *service, struct page **ret_page, struct error *err);

#endif
