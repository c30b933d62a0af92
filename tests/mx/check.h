/* What the tests of the MX face share: the world that most of them run in. */
#ifndef CHECK_H
#define CHECK_H

#include "mx_extensions.h"
#include "myriexpress.h"

#define SUCCESS MX_SUCCESS
#define CODE_NAME(code) mx_strerror(code)

#include "../faces/check.h"

#define KEY 0x1234u
#define ALL MX_MATCH_MASK_NONE

/* Two endpoints of this process, connected to each other, in most tests. */
extern mx_endpoint_t a, b;
/* Where a reaches b, and b reaches a. */
extern mx_endpoint_addr_t to_b, to_a;
extern uint32_t id_a, id_b;
extern uint64_t nic;

void open_both(void);
void close_both(void);

mx_segment_t segment(void *memory, uint32_t length);
mx_request_t isend(mx_endpoint_t from, mx_endpoint_addr_t to, uint64_t match, void *memory, uint32_t length);
mx_request_t irecv(mx_endpoint_t at, uint64_t match, uint64_t mask, void *memory, uint32_t length);
/* Waits for the end; both endpoints make progress. */
mx_status_t ended(mx_endpoint_t at, mx_request_t request);

/* The tests. */
void test_layout(void);
void test_library(void);
void test_handlers(void);
void test_endpoints(void);
void test_names(void);
void test_info(void);
void test_connecting(void);
void test_addresses(void);
void test_sessions(void);
void test_one_look(void);
void test_sizes(void);
void test_segments(void);
void test_matching(void);
void test_truncation(void);
void test_synchronous(void);
void test_ends(void);
void test_any(void);
void test_peeking(void);
void test_cancel(void);
void test_forget(void);
void test_context_ids(void);
void test_probing(void);
void test_self(void);
void test_unexpected(void);
void test_progression(void);
void test_wakeup(void);
void test_timeouts(void);
void test_wrong_handles(void);
void test_threads(void);
void test_match_stress(void);
void test_many_requests(void);
void test_many_endpoints(void);
void test_killed_peer(void);
void test_fork(void);

/* pairs.c: two processes, perhaps on two machines. */
int pair(int active, const char *host, const char *called);

#endif
