/* SPDX-License-Identifier: Apache-2.0 */
/* What the controller counts, in Prometheus' text form. */
#ifndef CONTROLLER_METRICS_H
#define CONTROLLER_METRICS_H

#include "controller/controller.h"

int controller_metrics(const struct controller *c, struct buf *out);

#endif
