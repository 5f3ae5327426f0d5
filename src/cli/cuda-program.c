/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file searches PATH, and looks for traces of the CUDA runtime in the program that it finds. A
 * program that nvcc made has a section with device code. The loader loads a shared runtime by name;
 * without such a name, the runtime is part of the program.
 */
#include "cli/cuda-program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/elf-file.h"

static int cuda_program_search(const char *name, char ret_path[PLACES_PATH], struct error *err)
{
	const char *path = getenv("PATH");
	struct str rest = str_from(path ? path : "/usr/local/bin:/usr/bin:/bin"), folder;
	struct stat st;
	bool is_denied = false;

	if (strchr(name, '/')) {
		snprintf(ret_path, PLACES_PATH, "%s", name);
		return access(name, F_OK) < 0 ? fail_errno(err, errno, "'%s'", name) : 0;
	}
	while (str_split(&rest, ':', &folder)) {
		snprintf(ret_path, PLACES_PATH, "%.*s/%s", STR_ARG(folder.n ? folder : STR(".")),
			name);
		if (stat(ret_path, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (access(ret_path, X_OK) == 0)
			return 0;
		is_denied = true;
	}
	if (is_denied)
		return fail(err, EACCES, "'%s' in PATH is not executable", name);
	return fail(err, ENOENT, "no program '%s' in PATH", name);
}

int cuda_program_find(const char *name, struct cuda_program *ret, struct error *err)
{
	_cleanup_(elf_file_done) struct elf_file file = {.map = MAP_NONE};
	struct cuda_program program = {.runtime = CUDA_RUNTIME_NONE};
	int r = cuda_program_search(name, program.path, err);

	if (r < 0)
		return r;
	/* A file that is no ELF file, such as a script, contains no runtime. */
	if (elf_file_open(program.path, &file, NULL) == 0) {
		memcpy(program.library, file.cudart, sizeof(program.library));
		if (file.cudart[0])
			program.runtime = CUDA_RUNTIME_SHARED;
		else if (file.has_fatbin)
			program.runtime = CUDA_RUNTIME_STATIC;
	}
	*ret = program;
	return 0;
}
