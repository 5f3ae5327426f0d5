/* SPDX-License-Identifier: Apache-2.0 */
/* The files of page/, put into the program when it is built. */
#ifndef CONTROLLER_PAGE_FILES_H
#define CONTROLLER_PAGE_FILES_H

#include "base/str.h"

#define PAGE_N_FILES 3u

struct page_file {
	const char *path; /* where it is served: "/", "/page.css", "/page.js" */
	const char *type;
	const char *tag; /* of the content, quotes included: an ETag */
	struct str content;
};

extern const struct page_file page_files[PAGE_N_FILES];

#endif
