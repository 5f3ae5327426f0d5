/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's metrics in Prometheus' text format. -errno of the buffer. */
#ifndef CONTROLLER_CONTROLLER_METRICS_H
#define CONTROLLER_CONTROLLER_METRICS_H

#include "controller/controller.h"

int controller_metrics(const struct controller *c, struct buf *out);

#endif
