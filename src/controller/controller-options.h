/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares the options of divvy-controller, from which its help and the man page
 * divvy-controller(8) are made.
 */
#ifndef CONTROLLER_CONTROLLER_OPTIONS_H
#define CONTROLLER_CONTROLLER_OPTIONS_H

#include "base/program.h"
#include "controller/controller.h"

/* Fills a struct controller_options, which borrows from argv. */
extern const struct program options_program;

#endif
