/* SPDX-License-Identifier: Apache-2.0 */
/* Appends the controller's metrics to a buffer in Prometheus' text format. Returns buf_error(). */
#ifndef CONTROLLER_CONTROLLER_METRICS_H
#define CONTROLLER_CONTROLLER_METRICS_H

#include "controller/controller.h"

int controller_metrics(const struct controller *c, struct buf *out);

#endif
