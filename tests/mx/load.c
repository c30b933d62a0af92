/* Many threads, requests, endpoints. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 300 };

/* Each thread has its own match bits on the same two endpoints. */
static void *exchange(void *number)
{
	uint64_t bits = (uint64_t)(uintptr_t)number;
	unsigned char out[3000], in[3000];
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint32_t length = (round * 97 + (unsigned)bits) % sizeof out, result = 0;
		mx_request_t send, receive;
		mx_status_t status;
		fill(out, length, round);
		receive = irecv(b, bits, ALL, in, sizeof in);
		send = isend(a, to_b, bits, out, length);
		switch (round % 3) {
		case 0:
			status = ended(b, receive);
			break;
		case 1:
			OK(mx_wait_any(b, LONG, bits, ALL, &status, &result));
			CHECK(result == 1);
			break;
		default: {
			double start = seconds();
			while (!result && seconds() - start < LONG / 1000)
				OK(mx_test(b, &receive, &status, &result));
			CHECK(result == 1);
		}
		}
		CHECK(status.code == MX_STATUS_SUCCESS && status.msg_length == length);
		CHECK(is_filled(in, length, round));
		CHECK(ended(a, send).code == MX_STATUS_SUCCESS);
	}
	return NULL;
}

static void *opening(void *unused)
{
	(void)unused;
	for (int round = 0; round < 6; round++) {
		mx_endpoint_t endpoint;
		OK(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 0, &endpoint));
		OK(mx_close_endpoint(endpoint));
	}
	return NULL;
}

static mx_endpoint_t closing;

static void *wait_until_closed(void *unused)
{
	mx_status_t status;
	uint32_t result = 9;
	(void)unused;
	RETURNS(mx_wait_any(closing, MX_INFINITE, 0, 0, &status, &result), MX_BAD_ENDPOINT);
	return NULL;
}

void test_threads(void)
{
	pthread_t threads[THREADS + 1], waiter;
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, exchange, (void *)(i + 1)))
			exit(1);
	if (pthread_create(&threads[THREADS], NULL, opening, NULL))
		exit(1);
	for (int i = 0; i <= THREADS; i++)
		pthread_join(threads[i], NULL);
	/* Closing ends the waits of others. */
	OK(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 0, &closing));
	if (pthread_create(&waiter, NULL, wait_until_closed, NULL))
		exit(1);
	pause_ms(50);
	OK(mx_close_endpoint(closing));
	pthread_join(waiter, NULL);
}

/* More than a node takes at once: they wait, in order, and none is refused. */
void test_many_requests(void)
{
	enum { MANY = 70000 };
	mx_request_t *sends = malloc(MANY * sizeof *sends);
	uint32_t *out = malloc(MANY * sizeof *out), *in = malloc(MANY * sizeof *in);
	for (uint32_t i = 0; i < MANY; i++) {
		mx_segment_t one = segment(&out[i], sizeof out[i]);
		out[i] = i;
		in[i] = 0;
		sends[i] = NULL;
		MUST(mx_issend(a, &one, 1, to_b, 1, NULL, &sends[i]));
	}
	for (uint32_t i = 0; i < MANY; i++) {
		uint32_t result = 0;
		mx_status_t status;
		mx_request_t receive = irecv(b, 1, ALL, &in[i], sizeof in[i]);
		double start = seconds();
		while (!result && seconds() - start < LONG / 1000) {
			MUST(mx_wait(b, &receive, 20, &status, &result));
			/* One process is both ends: what waits for room leaves only by its progress. */
			MUST(mx_progress(a));
		}
		if (!result || in[i] != i) {
			CHECK(!"a message is missing or out of order");
			break;
		}
	}
	for (uint32_t i = 0; i < MANY; i++)
		if (ended(a, sends[i]).code != MX_STATUS_SUCCESS) {
			CHECK(!"a send has failed");
			break;
		}
	/* Receives likewise. */
	for (uint32_t i = 0; i < MANY; i++)
		sends[i] = irecv(b, 2, ALL, &in[i], sizeof in[i]);
	for (uint32_t i = 0; i < MANY; i++) {
		mx_segment_t one = segment(&out[i], sizeof out[i]);
		out[i] = i + 1;
		MUST(mx_isend(a, &one, 1, to_b, 2, NULL, NULL));
		if (i % 64 == 0)
			MUST(mx_progress(b));
	}
	for (uint32_t i = 0; i < MANY; i++)
		if (ended(b, sends[i]).code != MX_STATUS_SUCCESS || in[i] != i + 1) {
			CHECK(!"a message is missing or out of order");
			break;
		}
	free(sends);
	free(out);
	free(in);
}

void test_many_endpoints(void)
{
	enum { ENDPOINTS = 24 };
	static mx_endpoint_t all[ENDPOINTS];
	static mx_endpoint_addr_t to[ENDPOINTS][ENDPOINTS];
	static uint32_t ids[ENDPOINTS], out[ENDPOINTS][ENDPOINTS], in[ENDPOINTS][ENDPOINTS];
	static mx_request_t requests[ENDPOINTS][ENDPOINTS];
	OK(mx_board_number_to_nic_id(0, &nic));
	for (int i = 0; i < ENDPOINTS; i++) {
		mx_endpoint_addr_t own;
		MUST(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 0, &all[i]));
		OK(mx_get_endpoint_addr(all[i], &own));
		OK(mx_decompose_endpoint_addr(own, NULL, &ids[i]));
	}
	for (int i = 0; i < ENDPOINTS; i++)
		for (int j = 0; j < ENDPOINTS; j++)
			MUST(mx_connect(all[i], nic, ids[j], KEY, LONG, &to[i][j]));
	/* Everyone to everyone. */
	for (int i = 0; i < ENDPOINTS; i++)
		for (int j = 0; j < ENDPOINTS; j++)
			requests[i][j] = irecv(all[i], (uint64_t)j, ALL, &in[i][j], sizeof in[i][j]);
	for (int i = 0; i < ENDPOINTS; i++)
		for (int j = 0; j < ENDPOINTS; j++) {
			mx_segment_t one = segment(&out[i][j], sizeof out[i][j]);
			out[i][j] = (uint32_t)(i * 1000 + j);
			OK(mx_isend(all[i], &one, 1, to[i][j], (uint64_t)i, NULL, NULL));
		}
	for (int i = 0; i < ENDPOINTS; i++)
		for (int j = 0; j < ENDPOINTS; j++) {
			CHECK(ended(all[i], requests[i][j]).code == MX_STATUS_SUCCESS);
			CHECK(in[i][j] == (uint32_t)(j * 1000 + i));
		}
	for (int i = 0; i < ENDPOINTS; i++)
		OK(mx_close_endpoint(all[i]));
}
