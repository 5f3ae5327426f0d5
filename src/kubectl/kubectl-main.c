/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program kubectl-divvy, which kubectl finds by name in PATH. Under the name
 * kubectl_complete-divvy it prints completions for kubectl.
 */
#include <string.h>

#include "kubectl/kubectl-commands.h"

int main(int argc, char **argv)
{
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : argc ? argv[0] : "";

	if (!strcmp(name, "kubectl_complete-divvy")) {
		kubectl_complete(argc - 1, argv + 1);
		return 0;
	}
	return cli_main(argc, argv);
}
