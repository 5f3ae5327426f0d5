/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undocumented tables of the driver, which the CUDA runtime and its libraries request by UUID. The
 * contents of such a table cannot be carried over a network. The library refuses each table as a
 * driver refuses a table that it does not know. At the first request for a table without which
 * programs fail, the library prints a message on stderr, because the program's own error will
 * hardly name the table. Any thread.
 */
#include "base/cleanup.h"
#include "cuda/other-runtime.h"
#include "cuda/own-driver.h"
#include "cuda/uuid.h"
#include "remote/client.h"

#define TABLES_MAX 32u /* further tables are refused without a message */

#define RUNTIME "NVIDIA's CUDA runtime does not work with --remote"
#define TOOLS "cuFFT and profilers do not work with --remote"

/*
 * The consequence for programs that do not get the table, as observed with unmodified programs.
 * divvy does not document the tables' contents. NULL: the programs work without the table.
 */
static const struct {
	char id[CUDA_UUID_TEXT];
	const char *consequence;
} known[] = {
	/* the CUDA runtime */
	{"6bd5fb6c-5bf4-e74a-8987-d93912fd9df9", RUNTIME},
	{"a094798c-2e74-2e74-93f2-0800200c0a66", RUNTIME},
	{"42d85a81-23f6-cb47-8298-f6e78a3aecdc", RUNTIME},
	{"c693336e-1121-df11-a8c3-68f355d89593", RUNTIME},
	{"263e8860-7cd2-6143-92f6-bbd5006dfa7e", RUNTIME},
	{"d4082055-bde6-704b-8d34-ba123c66e1f2", RUNTIME},
	/* the CUDA runtime 13 asks for this table first, and goes on without it */
	{"f8cff951-2146-8b4e-b9e2-fb469e7c0dd9", NULL},
	/* NVRTC and nvJitLink: a cache of compiled code */
	{"da9151d3-3ae6-cc41-a5c0-4f26d533e328", NULL},
	{"21318c60-9714-3248-8ca6-41ff7324c8f2", TOOLS},
	{"6e163fbe-b958-444d-835c-e182aff1991e", TOOLS},
};

/* NULL: programs work without the table, and need no message. */
static const char *export_consequence(const char *id)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(id, known[i].id))
			return known[i].consequence;
	return "a program that needs this table fails";
}

/* Whether this is the first request for the table `id` that needs a message. */
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

REMOTE_EXPORT CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	static const struct own_driver_table own = {sizeof(own), "remote"};
	char id[CUDA_UUID_TEXT], text[512];
	const char *consequence;

	if (ppExportTable)
		*ppExportTable = NULL;
	if (!ppExportTable || !pExportTableId)
		return CUDA_ERROR_INVALID_VALUE;
	if (own_driver_is_asked(pExportTableId)) {
		*ppExportTable = &own;
		return CUDA_SUCCESS;
	}
	cuda_uuid_format((const uint8_t *)pExportTableId, id);
	consequence = export_consequence(id);
	if (!consequence || !is_new(pExportTableId))
		return CUDA_ERROR_INVALID_VALUE;
	if (other_runtime_asks(pExportTableId)) {
		other_runtime_explain(text, sizeof(text));
		session_send_diagnostic("%s", text);
	} else {
		session_send_diagnostic(
			"cuGetExportTable %s is not supported with a remote GPU: %s", id,
			consequence);
	}
	return CUDA_ERROR_INVALID_VALUE;
}
