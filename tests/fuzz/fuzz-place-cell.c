/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads KubeShare 2.0's cell file: any text is refused with a message, or gives a complete tree.
 */
#include <errno.h>

#include "place/place-cell.h"
#include "place/place.h"
#include "replay/cell-file.h"
#include "fuzz-yaml.h"
#include "fuzz.h"

static void check(const struct place_cells *cells, uint32_t at)
{
	struct place_cell_view cell, other;

	place_cell_get(cells, at, &cell);
	FUZZ_CHECK(cell.type[0]);
	FUZZ_CHECK(cell.priority <= CELL_PRIORITY_MAX);
	FUZZ_CHECK(cell.parent == PLACE_NONE || cell.parent < at);
	for (uint32_t i = 0; i < cell.n_children; i++) {
		FUZZ_CHECK(cell.first_child + i > at);
		FUZZ_CHECK(cell.first_child + i < place_cells_n(cells));
		place_cell_get(cells, cell.first_child + i, &other);
		FUZZ_CHECK(other.parent == at);
	}
	if (!cell.n_children) {
		FUZZ_CHECK(cell.node[0]);
		FUZZ_CHECK(place_cells_leaf(cells, cell.node, cell.type, 0) <= at);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct place_cells *cells = NULL;
	struct error err = {0};
	int r = place_cells_parse((struct str){(const char *)data, n}, &cells, &err);

	FUZZ_CHECK(r == 0 || r == -EINVAL || r == -E2BIG);
	FUZZ_CHECK(r == 0 || (err.msg[0] && !cells));
	for (uint32_t at = 0; cells && at < place_cells_n(cells); at++)
		check(cells, at);
	place_cells_free(cells);
	return 0;
}
