/* SPDX-License-Identifier: Apache-2.0 */
/* divvyd(8) and tenants.conf(5), made of the tables of options and of fields. */
#ifndef AGENT_MAN_H
#define AGENT_MAN_H

#include "base/error.h"

/* Writes divvyd.8 and tenants.conf.5 into the folder, which is made if need be. */
int man_dump(const char *folder, struct error *err);

#endif
