/* SPDX-License-Identifier: Apache-2.0 */
/* The man page tenants.conf(5), made from the table of fields. */
#ifndef DIVVYD_DIVVYD_MAN_H
#define DIVVYD_DIVVYD_MAN_H

#include "base/error.h"

/* Writes tenants.conf.5 into the folder. */
int man_dump_conf(const char *folder, struct error *err);

#endif
