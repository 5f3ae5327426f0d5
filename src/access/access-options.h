/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Option rows that the daemons of the cluster's control plane share (base/program.h), and common
 * parts of their man pages. `at` is the offset of the option's field in the daemon's struct of
 * options.
 */
#ifndef ACCESS_ACCESS_OPTIONS_H
#define ACCESS_ACCESS_OPTIONS_H

#include "access/access-text.h"
#include "base/program.h"

#define ACCESS_OPTION_KUBECONFIG(at) \
	{ \
		"kubeconfig", "FILE", TEXT_ACCESS_KUBECONFIG, (at) \
	}

/* does: the holder's activity in the help text, such as "decides". */
#define ACCESS_OPTION_LEADER_ELECT(does, at) \
	{ \
		"leader-elect", NULL, "of several replicas, only the holder of the Lease " does, \
			(at) \
	}

#define ACCESS_OPTION_HEALTH_LISTEN(port, at) \
	{ \
		"health-listen", "ADDRESS", TEXT_ACCESS_HEALTH_LISTEN(port), (at), \
			.check = http_address_check \
	}

#define ACCESS_OPTION_NAMESPACE(at) \
	{ \
		"namespace", "NAME", "namespace of divvy's own pods; default divvy-system", (at), \
			.preset = "divvy-system" \
	}

#define ACCESS_OPTION_LEASE_NAMESPACE(at) \
	{ \
		"lease-namespace", "NAME", \
			"namespace of the nodes' Leases; default divvy-node-lease", (at), \
			.preset = "divvy-node-lease" \
	}

#define ACCESS_EXIT_STATUS \
	{ \
		"EXIT STATUS", TEXT_ACCESS_EXIT_STATUS \
	}

#define ACCESS_ENVIRONMENT \
	{"POD_NAME", "name in the Lease and in Events; default the host name"}, \
		{"KUBECONFIG", "kubeconfig, where --kubeconfig is not given"}, \
	{ \
		"DIVVY_LOG", "error, warn, info or debug, where --log is not given" \
	}

#endif
