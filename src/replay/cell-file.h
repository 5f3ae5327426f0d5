/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KubeShare 2.0's file of cells, which says what is near to what (place/place-cell.h):
 *
 *   cellTypes:
 *     V100-NODE:                                the type of a cell,
 *       childCellType: Tesla-V100-PCIE-32GB     what it consists of: a type, or else a device model
 *       childCellNumber: 4                      how many, where no children are listed
 *       childCellPriority: 100                  of the model, 0 to 1000; all say the same
 *       isNodeLevel: true                       the cell is a node
 *     2-V100-NODE:
 *       childCellType: V100-NODE
 *       childCellNumber: 2
 *   cells:
 *   - cellType: 2-V100-NODE                     a node or what is above one
 *     cellChildren:
 *     - cellId: node1                           a node's id ends in its name
 *     - cellId: node2
 *
 * Pure: text in, tree out. Any thread.
 */
#ifndef REPLAY_CELL_FILE_H
#define REPLAY_CELL_FILE_H

#include "base/error.h"
#include "base/str.h"
#include "place/place-cell.h"

#define CELL_FILE_MAX (16u << 20) /* bytes */

/*
 * -EINVAL with the line, the value and what would be right; -E2BIG for what is too large, too deep
 * or too many; -ENOMEM.
 */
int place_cells_parse(struct str text, struct place_cells **ret_cells, struct error *err);

#endif
