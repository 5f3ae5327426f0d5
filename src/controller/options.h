/* SPDX-License-Identifier: Apache-2.0 */
/* divvy-controller's command line and divvy-controller(8). */
#ifndef CONTROLLER_OPTIONS_H
#define CONTROLLER_OPTIONS_H

#include "base/program.h"
#include "controller/controller.h"

/* Of struct controller_options, which borrows from argv. */
extern const struct program options_program;

#endif
