/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undocumented tables of the driver, which the CUDA runtime and its libraries request by UUID. The
 * contents of such a table cannot be carried over a network. The library refuses each table, and
 * prints a message on stderr at its first request, because the program's own error will hardly name
 * the table. Any thread.
 */
#include "base/cleanup.h"
#include "cuda/uuid.h"
#include "remote/client.h"

#define TABLES_MAX 32u /* further tables are refused without a message */

/* Names that people who examined the driver use. divvy does not document the tables' contents. */
static const struct {
	uint8_t id[16];
	const char *name;
} known[] = {
	{{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
		 0xf9},
		"the CUDA runtime's interface"},
};

static const char *export_table_name(const CUuuid *id)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!memcmp(id, known[i].id, sizeof(known[i].id)))
			return known[i].name;
	return "a table without documentation";
}

/* Whether this is the first request for the table `id`. */
static bool is_new(const CUuuid *id)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static CUuuid said[TABLES_MAX];
	static unsigned n;
	bool is;

	pthread_mutex_lock(&lock);
	is = n < TABLES_MAX;
	for (unsigned i = 0; is && i < n; i++)
		is = memcmp(&said[i], id, sizeof(*id)) != 0;
	if (is)
		said[n++] = *id;
	pthread_mutex_unlock(&lock);
	return is;
}

static void export_print_refusal(const CUuuid *id)
{
	char text[CUDA_UUID_TEXT];

	cuda_uuid_format((const uint8_t *)id, text);
	session_send_diagnostic(
		"cuGetExportTable %s (%s) is not supported with a remote GPU: programs of the "
		"CUDA runtime do not work with --remote; use the driver API",
		text, export_table_name(id));
}

REMOTE_EXPORT CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	if (!ppExportTable || !pExportTableId)
		return CUDA_ERROR_INVALID_VALUE;
	*ppExportTable = NULL;
	if (is_new(pExportTableId))
		export_print_refusal(pExportTableId);
	return CUDA_ERROR_NOT_FOUND;
}
