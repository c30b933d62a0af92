/* What the tests of the MX face share: checks that count, and the world that most of them run in. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mx_extensions.h"
#include "myriexpress.h"

extern int checks, failures;
extern const char *current;
/* This program, to be run again. */
extern const char *program;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		checks++;                                                                          \
		if (!(condition)) {                                                                \
			failures++;                                                                \
			fprintf(stderr, "%s:%d: in %s: %s\n", __FILE__, __LINE__, current,         \
			    #condition);                                                           \
		}                                                                                  \
	} while (0)

/* A call's return code is the one that is documented. */
#define RETURNS(call, wanted)                                                                      \
	do {                                                                                       \
		mx_return_t got_ = (call);                                                         \
		checks++;                                                                          \
		if (got_ != (wanted)) {                                                            \
			failures++;                                                                \
			fprintf(stderr, "%s:%d: in %s: %s: %d (%s), not %d\n", __FILE__, __LINE__, \
			    current, #call, got_, mx_strerror(got_), wanted);                      \
		}                                                                                  \
	} while (0)

#define OK(call) RETURNS(call, MX_SUCCESS)

/* Nothing further makes sense. */
#define MUST(call)                                                                                 \
	do {                                                                                       \
		mx_return_t got_ = (call);                                                         \
		if (got_ != MX_SUCCESS) {                                                          \
			fprintf(stderr, "%s:%d: in %s: %s: %s\n", __FILE__, __LINE__, current,     \
			    #call, mx_strerror(got_));                                             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define KEY 0x1234u
/* Long enough for anything that is to happen, whatever else the machine does. */
#define LONG 30000u
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
void fill(unsigned char *memory, size_t length, unsigned seed);
int is_filled(const unsigned char *memory, size_t length, unsigned seed);
double seconds(void);
void pause_ms(unsigned ms);

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
