/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is served over HTTPS, on the loop: /healthz to all; /metrics to whom the API server knows
 * (TokenReview) and lets (SubjectAccessReview of get /metrics); /extender/ to who shows a
 * certificate of --client-ca, and without that to nobody.
 */
#ifndef SCHEDULER_SERVE_H
#define SCHEDULER_SERVE_H

#include "access/page.h"

struct service;

/* As the service's options say; nothing where nothing is to be served. */
int serve_new(struct service *service, struct page **ret_page, struct error *err);

#endif
