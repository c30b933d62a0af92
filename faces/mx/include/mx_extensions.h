/* mx_extensions.h - what MX has beside its core: see myriexpress.h, which tells how this was written. */
#ifndef MX_EXTENSIONS_H
#define MX_EXTENSIONS_H

#include "myriexpress.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As mx_connect(), but returns at once: the request ends with the address as its source. */
mx_return_t mx_iconnect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id,
    uint32_t key, uint64_t match_info, void *context, mx_request_t *request);
/* Ends what was not sent yet; no more can be sent until one of both connects again. */
mx_return_t mx_disconnect(mx_endpoint_t endpoint, mx_endpoint_addr_t address);

typedef enum mx_unexp_handler_action {
	/* The message stays for a receive; the handler may have posted one. */
	MX_RECV_CONTINUE = 0,
	/* The message is consumed. */
	MX_RECV_FINISHED = 1
} mx_unexp_handler_action_t;

/*
 * Called by progress for each message that no receive matches, with its bytes if they are all there. It may post sends and
 * receives; there is no progress while it runs, so it must not wait. Null removes it.
 */
typedef mx_unexp_handler_action_t (*mx_unexp_handler_t)(void *context, mx_endpoint_addr_t source,
    uint64_t match_info, uint32_t length, void *data_if_available);
mx_return_t mx_register_unexp_handler(mx_endpoint_t endpoint, mx_unexp_handler_t handler,
    void *context);

/* Nobody asks for the end of the request any more. */
mx_return_t mx_forget(mx_endpoint_t endpoint, mx_request_t *request);
/* Makes what progress there is; never waits. */
mx_return_t mx_progress(mx_endpoint_t endpoint);

/* A pointer for each remote endpoint, the same in all copies of its address; null at first. */
mx_return_t mx_set_endpoint_addr_context(mx_endpoint_addr_t address, void *context);
mx_return_t mx_get_endpoint_addr_context(mx_endpoint_addr_t address, void **context);

/*
 * Milliseconds after which a request (null: each of those made from now on) is given up if its peer was not reached,
 * with MX_STATUS_ENDPOINT_UNREACHABLE; MX_INFINITE: never before the peer is lost.
 */
mx_return_t mx_set_request_timeout(mx_endpoint_t endpoint, mx_request_t request,
    uint32_t milliseconds);

mx_return_t mx_decompose_endpoint_addr2(mx_endpoint_addr_t address, uint64_t *nic_id,
    uint32_t *endpoint_id, uint32_t *session_id);

#ifdef __cplusplus
}
#endif

#endif
