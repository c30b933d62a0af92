/*
 * Holds libmyriexpress.so to the MX interface, call by call.
 *
 *   conformance [TEST...]       in one process, on this machine
 *   conformance passive         waits for the other one
 *   conformance active HOST [NAME]   the same things, between two processes: HOST is where the other one is, as
 *                               HOST:BOARD or an address; NAME is what it calls itself, if that is not the same
 *   conformance open ID         opens an endpoint, and stays until it is ended: for a test
 */
#include <unistd.h>

#include "check.h"

mx_endpoint_t a, b;
mx_endpoint_addr_t to_b, to_a;
uint32_t id_a, id_b;
uint64_t nic;

/* Both endpoints are open for it. */
#define BOTH 1

static const struct test tests[] = {
	{"layout", test_layout, 0},
	{"library", test_library, 0},
	{"handlers", test_handlers, BOTH},
	{"endpoints", test_endpoints, 0},
	{"names", test_names, BOTH},
	{"info", test_info, BOTH},
	{"connecting", test_connecting, BOTH},
	{"addresses", test_addresses, BOTH},
	{"sessions", test_sessions, 0},
	{"one_look", test_one_look, 0},
	{"sizes", test_sizes, BOTH},
	{"segments", test_segments, BOTH},
	{"matching", test_matching, BOTH},
	{"truncation", test_truncation, BOTH},
	{"synchronous", test_synchronous, BOTH},
	{"ends", test_ends, BOTH},
	{"any", test_any, BOTH},
	{"peeking", test_peeking, BOTH},
	{"cancel", test_cancel, BOTH},
	{"forget", test_forget, BOTH},
	{"context_ids", test_context_ids, 0},
	{"probing", test_probing, BOTH},
	{"self", test_self, BOTH},
	{"unexpected", test_unexpected, BOTH},
	{"progression", test_progression, BOTH},
	{"wakeup", test_wakeup, BOTH},
	{"timeouts", test_timeouts, BOTH},
	{"wrong_handles", test_wrong_handles, BOTH},
	{"threads", test_threads, BOTH},
	{"match_stress", test_match_stress, BOTH},
	{"many_requests", test_many_requests, BOTH},
	{"many_endpoints", test_many_endpoints, 0},
	{"killed_peer", test_killed_peer, 0},
	{"fork", test_fork, BOTH},
};

void open_both(void)
{
	uint64_t of_a, of_b;
	mx_endpoint_addr_t own;
	MUST(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 0, &a));
	MUST(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY + 1, NULL, 0, &b));
	MUST(mx_get_endpoint_addr(a, &own));
	MUST(mx_decompose_endpoint_addr(own, &of_a, &id_a));
	MUST(mx_get_endpoint_addr(b, &own));
	MUST(mx_decompose_endpoint_addr(own, &of_b, &id_b));
	nic = of_a;
	MUST(mx_connect(a, of_b, id_b, KEY + 1, LONG, &to_b));
	MUST(mx_connect(b, of_a, id_a, KEY, LONG, &to_a));
}

void close_both(void)
{
	MUST(mx_close_endpoint(a));
	MUST(mx_close_endpoint(b));
}

mx_segment_t segment(void *memory, uint32_t length)
{
	mx_segment_t segment;
	segment.segment_ptr = memory;
	segment.segment_length = length;
	return segment;
}

mx_request_t isend(mx_endpoint_t from, mx_endpoint_addr_t to, uint64_t match, void *memory, uint32_t length)
{
	mx_segment_t one = segment(memory, length);
	mx_request_t request = NULL;
	MUST(mx_isend(from, &one, 1, to, match, memory, &request));
	return request;
}

mx_request_t irecv(mx_endpoint_t at, uint64_t match, uint64_t mask, void *memory, uint32_t length)
{
	mx_segment_t one = segment(memory, length);
	mx_request_t request = NULL;
	MUST(mx_irecv(at, &one, 1, match, mask, memory, &request));
	return request;
}

mx_status_t ended(mx_endpoint_t at, mx_request_t request)
{
	mx_status_t status;
	uint32_t result = 0;
	memset(&status, 0xff, sizeof status);
	MUST(mx_wait(at, &request, LONG, &status, &result));
	CHECK(result == 1);
	CHECK(request == NULL);
	provoked("status", status.code);
	return status;
}

static int open_and_stay(uint32_t id)
{
	mx_endpoint_t endpoint;
	MUST(mx_open_endpoint(0, id, KEY, NULL, 0, &endpoint));
	printf("open\n");
	fflush(stdout);
	for (;;)
		pause();
}

static void around(const struct test *test, int before)
{
	if (before) {
		if (test->run != test_library)
			MUST(mx_init());
		if (test->kind == BOTH)
			open_both();
	} else {
		if (test->kind == BOTH)
			close_both();
		if (test->run != test_library)
			MUST(mx_finalize());
	}
}

int main(int count, char **arguments)
{
	begin_program(arguments);
	mx_set_error_handler(MX_ERRORS_RETURN);
	if (count > 2 && !strcmp(arguments[1], "open")) {
		MUST(mx_init());
		return open_and_stay((uint32_t)atoi(arguments[2]));
	}
	if (count > 1 && !strcmp(arguments[1], "fatal")) {
		MUST(mx_init());
		CHECK(mx_set_error_handler(NULL) == MX_ERRORS_RETURN);
		mx_close_endpoint(NULL);
		return 7;
	}
	if (count > 1 && (!strcmp(arguments[1], "active") || !strcmp(arguments[1], "passive"))) {
		MUST(mx_init());
		const char *host = count > 2 ? arguments[2] : NULL;
		pair(!strcmp(arguments[1], "active"), host, count > 3 ? arguments[3] : host);
		OK(mx_finalize());
	} else {
		run_tests(tests, sizeof tests / sizeof *tests, count - 1, arguments + 1, around, stdout);
	}
	return end_program(stdout);
}
