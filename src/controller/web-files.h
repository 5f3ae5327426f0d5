/* SPDX-License-Identifier: Apache-2.0 */
/* The files of web/, which the build embeds. */
#ifndef CONTROLLER_WEB_FILES_H
#define CONTROLLER_WEB_FILES_H

#include "base/str.h"

#define WEB_N_FILES 3u

struct web_file {
	const char *path; /* URL path: "/", "/web.css", "/web.js" */
	const char *type;
	const char *tag; /* ETag of the content, quotes included */
	struct str content;
};

extern const struct web_file web_files[WEB_N_FILES];

#endif
