/*
 * Holds libmyriexpress.so to the MX interface, call by call.
 *
 *   conformance [TEST...]       in one process, on this machine
 *   conformance passive         waits for the other one
 *   conformance active HOST [NAME]   the same things, between two processes: HOST is where the other one is, as
 *                               HOST:BOARD or an address; NAME is what it calls itself, if that is not the same
 *   conformance open ID         opens an endpoint, and stays until it is ended: for a test
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

int checks, failures;
const char *current = "", *program;

mx_endpoint_t a, b;
mx_endpoint_addr_t to_b, to_a;
uint32_t id_a, id_b;
uint64_t nic;

static const struct {
	const char *name;
	void (*run)(void);
	int needs_both;
} tests[] = {
	{"layout", test_layout, 0},
	{"library", test_library, 0},
	{"handlers", test_handlers, 1},
	{"endpoints", test_endpoints, 0},
	{"names", test_names, 1},
	{"info", test_info, 1},
	{"connecting", test_connecting, 1},
	{"addresses", test_addresses, 1},
	{"sessions", test_sessions, 0},
	{"sizes", test_sizes, 1},
	{"segments", test_segments, 1},
	{"matching", test_matching, 1},
	{"truncation", test_truncation, 1},
	{"synchronous", test_synchronous, 1},
	{"ends", test_ends, 1},
	{"any", test_any, 1},
	{"peeking", test_peeking, 1},
	{"cancel", test_cancel, 1},
	{"forget", test_forget, 1},
	{"context_ids", test_context_ids, 0},
	{"probing", test_probing, 1},
	{"self", test_self, 1},
	{"unexpected", test_unexpected, 1},
	{"progression", test_progression, 1},
	{"wakeup", test_wakeup, 1},
	{"timeouts", test_timeouts, 1},
	{"wrong_handles", test_wrong_handles, 1},
	{"threads", test_threads, 1},
	{"match_stress", test_match_stress, 1},
	{"many_requests", test_many_requests, 1},
	{"many_endpoints", test_many_endpoints, 0},
	{"killed_peer", test_killed_peer, 0},
	{"fork", test_fork, 1},
};

double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void pause_ms(unsigned ms)
{
	usleep(ms * 1000);
}

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
	return status;
}

void fill(unsigned char *memory, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		memory[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8));
}

int is_filled(const unsigned char *memory, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		if (memory[i] != (unsigned char)(seed * 31 + i * 7 + (i >> 8)))
			return 0;
	return 1;
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

static int wanted(const char *name, int count, char **names)
{
	if (count == 0)
		return 1;
	for (int i = 0; i < count; i++)
		if (strcmp(name, names[i]) == 0)
			return 1;
	return 0;
}

int main(int count, char **arguments)
{
	int pairing = count > 1 && (!strcmp(arguments[1], "active") || !strcmp(arguments[1], "passive"));
	program = arguments[0];
	mx_set_error_handler(MX_ERRORS_RETURN);
	/* A call that hangs is a failure, and says where. */
	alarm(pairing ? 280 : 240);
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
	if (pairing) {
		MUST(mx_init());
		const char *host = count > 2 ? arguments[2] : NULL;
		pair(!strcmp(arguments[1], "active"), host, count > 3 ? arguments[3] : host);
		OK(mx_finalize());
	} else {
		for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
			double start = seconds();
			if (!wanted(tests[i].name, count - 1, arguments + 1))
				continue;
			current = tests[i].name;
			if (tests[i].run != test_library)
				MUST(mx_init());
			if (tests[i].needs_both)
				open_both();
			tests[i].run();
			if (tests[i].needs_both)
				close_both();
			if (tests[i].run != test_library)
				MUST(mx_finalize());
			printf("%-16s %.2f s\n", tests[i].name, seconds() - start);
			fflush(stdout);
		}
	}
	printf("%d checks, %d failed\n", checks, failures);
	return failures != 0;
}
