/* Sizes, places and values that programs have compiled in. */
#include "check.h"
#include "mx_internals/mx__driver_interface.h"
#include "mx_internals/mx__fops.h"

#ifndef PRIx64
#error "programs print by this and include nothing else for it"
#endif

SIZE(mx_endpoint_t, 8, 8);
SIZE(mx_request_t, 8, 8);
SIZE(mx_endpoint_addr_t, 16, 8);
SIZE(mx_segment_ptr_t, 8, 8);
SIZE(mx_segment_t, 16, 8);
AT(mx_segment_t, segment_ptr, 0);
AT(mx_segment_t, segment_length, 8);
SIZE(mx_return_t, 4, 4);
SIZE(mx_status_code_t, 4, 4);
SIZE(mx_param_key_t, 4, 4);
SIZE(mx_get_info_key_t, 4, 4);
SIZE(mx_line_speed_t, 4, 4);
SIZE(mx_unexp_handler_action_t, 4, 4);
SIZE(mx_param_t, 16, 8);
AT(mx_param_t, key, 0);
AT(mx_param_t, val, 8);
AT(mx_param_t, val.context_id.bits, 8);
AT(mx_param_t, val.context_id.shift, 9);
SIZE(mx_status_t, 48, 8);
AT(mx_status_t, code, 0);
AT(mx_status_t, source, 8);
AT(mx_status_t, match_info, 24);
AT(mx_status_t, msg_length, 32);
AT(mx_status_t, xfer_length, 36);
AT(mx_status_t, context, 40);
SIZE(mx_mapper_state_t, 36, 4);
AT(mx_mapper_state_t, board_number, 0);
AT(mx_mapper_state_t, mapper_mac, 4);
AT(mx_mapper_state_t, iport, 10);
AT(mx_mapper_state_t, map_version, 12);
AT(mx_mapper_state_t, num_hosts, 16);
AT(mx_mapper_state_t, network_configured, 20);
AT(mx_mapper_state_t, routes_valid, 24);
AT(mx_mapper_state_t, level, 28);
AT(mx_mapper_state_t, flags, 32);
SIZE(mx_endpt_handle_t, 4, 4);
SIZE(mx_error_handler_t, 8, 8);
SIZE(mx_unexp_handler_t, 8, 8);
SIZE(mx_matching_callback_t, 8, 8);

IS(MX_API, 0x301);
IS(MX_MAX_STR_LEN, 128);
IS(MX_MAX_HOSTNAME_LEN, 80);
IS(MX_SIZEOF_ADDR, sizeof(mx_endpoint_addr_t));
IS(MX_ANY_NIC, 0xffffffffu);
IS(MX_ANY_ENDPOINT, 0xffffffffu);
IS(MX_INFINITE, 0);
IS(MX_MAX_SEGMENTS, 256);
IS(MX_MATCH_MASK_NONE, UINT64_MAX);
IS(MX_CONTEXT_ID_BITS_MAX, 16);
IS(MX__INVALID_HANDLE, -1);
IS(MX_U32(0x1122334455667788), 0x11223344);
IS(MX_L32(0x1122334455667788), 0x55667788);
IS(MX_NET_MYRI, 0);
IS(MX_NET_ETHER, 1);
IS(MX_SPEED_2G, 0);
IS(MX_SPEED_10G, 1);
IS(MX_SPEED_OPEN_MX, 2);
IS(MX_RECV_CONTINUE, 0);
IS(MX_RECV_FINISHED, 1);
IS(MX_PARAM_ERROR_HANDLER, 0);
IS(MX_PARAM_UNEXP_QUEUE_MAX, 1);
IS(MX_PARAM_CONTEXT_ID, 2);
IS(MX_NIC_COUNT, 1);
IS(MX_LINE_SPEED, 16);
IS(MX_COPY_SEND_MAX, 13);
IS(MX_SUCCESS, 0);
IS(MX_NO_RESOURCES, 15);
IS(MX_BUSY, 20);
IS(MX_TIMEOUT, 30);
IS(MX_CANCEL_NOT_SUPPORTED, 40);
IS(MX_NOT_SUPPORTED_WITH_CONTEXT_ID, 43);
IS(MX_STATUS_TRUNCATED, 5);
IS(MX_STATUS_ENDPOINT_CLOSED, 8);
IS(MX_STATUS_ENDPOINT_UNREACHABLE, 9);
IS(MX_STATUS_BAD_SESSION, 10);
IS(MX_STATUS_BAD_KEY, 11);
IS(MX_STATUS_NO_RESOURCES, 16);

void test_layout(void)
{
	mx_mapper_state_t state;
	mx_endpt_handle_t handle = MX__INVALID_HANDLE, again;
	/* Texts for every code, and for what is none. */
	for (int code = 0; code <= MX_NOT_SUPPORTED_WITH_CONTEXT_ID; code++)
		CHECK(strcmp(mx_strerror((mx_return_t)code), "unknown return code") != 0);
	CHECK(strcmp(mx_strerror((mx_return_t)44), "unknown return code") == 0);
	for (int code = 0; code <= MX_STATUS_NO_RESOURCES; code++)
		CHECK(strcmp(mx_strstatus((mx_status_code_t)code), "unknown status code") != 0);
	CHECK(strcmp(mx_strstatus((mx_status_code_t)-1), "unknown status code") == 0);
	/* What programs use beside the documented interface. */
	OK(mx_open_board(0, &handle));
	CHECK(handle != MX__INVALID_HANDLE);
	OK(mx_open_board(0, &again));
	CHECK(handle == again);
	memset(&state, 0xff, sizeof state);
	OK(mx__get_mapper_state(handle, &state));
	CHECK(state.board_number == 0 && state.network_configured && state.routes_valid);
	RETURNS(mx_open_board(999, &handle), MX_BOARD_UNKNOWN);
	RETURNS(mx_open_board(-1, &handle), MX_BOARD_UNKNOWN);
	RETURNS(mx__get_mapper_state(MX__INVALID_HANDLE, &state), MX_BOARD_UNKNOWN);
	CHECK(mx__regcache_clean(&state, sizeof state) == 0);
}
