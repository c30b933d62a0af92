/* mx_io.h - handles of boards: see myriexpress.h, which tells how this was written. */
#ifndef MX_IO_H
#define MX_IO_H

#include "myriexpress.h"

/* A descriptor of the library's, which is not to be closed. */
typedef int mx_endpt_handle_t;
#define MX__INVALID_HANDLE (-1)

#endif
