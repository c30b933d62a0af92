/* mx__fops.h - opening boards: see myriexpress.h, which tells how this was written. */
#ifndef MX__FOPS_H
#define MX__FOPS_H

#include "../mx_io.h"

#ifdef __cplusplus
extern "C" {
#endif

mx_return_t mx_open_board(int board_num, mx_endpt_handle_t *handle);

#ifdef __cplusplus
}
#endif

#endif
