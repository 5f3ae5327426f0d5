/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads KubeShare 2.0's cell file, which describes the distances between devices as a tree of cells
 * (place/place-cell.h):
 *
 *   cellTypes:
 *     V100-NODE:                               the name of a cell type
 *       childCellType: Tesla-V100-PCIE-32GB    its children: a cell type or a device model
 *       childCellNumber: 4                     number of children, if a cell lists none
 *       childCellPriority: 100                 of the model, 0 to 1000; one value per model
 *       isNodeLevel: true                      a cell of this type is a node
 *     2-V100-NODE:
 *       childCellType: V100-NODE
 *       childCellNumber: 2
 *   cells:
 *     - cellType: 2-V100-NODE                  a node, or a cell above nodes
 *       cellChildren:
 *         - cellId: node1                      a node's id ends in the node's name
 *         - cellId: node2
 *
 * Pure and thread-safe.
 */
#ifndef REPLAY_CELL_FILE_H
#define REPLAY_CELL_FILE_H

#include "base/error.h"
#include "base/str.h"
#include "place/place-cell.h"

#define CELL_FILE_MAX (16u << 20) /* bytes */

/*
 * The caller frees *ret_cells with place_cells_free(). Errors: -EINVAL, with the line, the wrong
 * value and the accepted values. -E2BIG if the file is too large, too deep or has too many cells.
 * -ENOMEM.
 */
int place_cells_parse(struct str text, struct place_cells **ret_cells, struct error *err);

#endif
