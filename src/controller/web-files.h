/* SPDX-License-Identifier: Apache-2.0 */
/* The files of web/, put into the program when it is built. */
#ifndef CONTROLLER_WEB_FILES_H
#define CONTROLLER_WEB_FILES_H

#include "base/str.h"

#define WEB_N_FILES 3u

struct web_file {
	const char *path; /* where it is served: "/", "/web.css", "/web.js" */
	const char *type;
	const char *tag; /* of the content, quotes included: an ETag */
	struct str content;
};

extern const struct web_file web_files[WEB_N_FILES];

#endif
