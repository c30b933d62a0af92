/* mx__driver_interface.h - the state of a board's fabric: see myriexpress.h, which tells how this was written. */
#ifndef MX__DRIVER_INTERFACE_H
#define MX__DRIVER_INTERFACE_H

#include "../mx_io.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Programs compare mapper_mac to find out which boards are on one network. Ethernet has no mapper: boards of the same
 * number have the same here. Of the other members EMP fills board_number, network_configured and routes_valid.
 */
typedef struct mx_mapper_state {
	uint32_t board_number;
	uint8_t mapper_mac[6];
	uint16_t iport;
	uint32_t map_version;
	uint32_t num_hosts;
	uint32_t network_configured;
	uint32_t routes_valid;
	uint32_t level;
	uint32_t flags;
} mx_mapper_state_t;

mx_return_t mx__get_mapper_state(mx_endpt_handle_t handle, mx_mapper_state_t *state);

#ifdef __cplusplus
}
#endif

#endif
