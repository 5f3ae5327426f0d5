/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is served over HTTPS, on the loop: /healthz to all; /metrics to whom the API server knows
 * (TokenReview) and lets (SubjectAccessReview of get /metrics).
 */
#ifndef SCHEDULER_SERVE_H
#define SCHEDULER_SERVE_H

#include "base/error.h"

struct serve;
struct service;

/* As the service's options say; *ret_serve is NULL where nothing is to be served. */
int serve_new(struct service *service, struct serve **ret_serve, struct error *err);
void serve_free(struct serve *serve);

#endif
