/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of divvy-controller and divvy-controller(8). */
#ifndef CONTROLLER_CONTROLLER_OPTIONS_H
#define CONTROLLER_CONTROLLER_OPTIONS_H

#include "base/program.h"
#include "controller/controller.h"

/* Fills a struct controller_options, which borrows from argv. */
extern const struct program options_program;

#endif
