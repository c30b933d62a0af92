/* How requests are asked for, and given up. */
#include "check.h"

static unsigned char memory[1 << 20], other[1 << 20];

void test_ends(void)
{
	mx_request_t request, again;
	mx_status_t status;
	uint32_t result = 9;
	void *context = NULL;
	double start;
	request = irecv(b, 1, ALL, memory, 10);
	OK(mx_test(b, &request, &status, &result));
	CHECK(result == 0 && request != NULL);
	start = seconds();
	OK(mx_wait(b, &request, 50, &status, &result));
	CHECK(result == 0 && request != NULL && seconds() - start >= 0.045);
	OK(mx_context(&request, &context));
	CHECK(context == memory);
	CHECK(ended(a, isend(a, to_b, 1, other, 10)).code == MX_STATUS_SUCCESS);
	result = 0;
	UNTIL_BY(result, OK(mx_test(b, &request, &status, &result)));
	CHECK(result == 1 && request == NULL && status.context == memory);
	/* Once is all. */
	RETURNS(mx_test(b, &request, &status, &result), MX_BAD_REQUEST);
	RETURNS(mx_wait(b, &request, 1, &status, &result), MX_BAD_REQUEST);
	RETURNS(mx_context(&request, &context), MX_BAD_REQUEST);
	/* A send's buffer: at once if it is small, not before the receiver has it if it is large. */
	request = isend(a, to_b, 2, memory, 16);
	OK(mx_buffered(a, &request, LONG, &result));
	CHECK(result == 1);
	OK(mx_ibuffered(a, &request, &result));
	CHECK(result == 1 && request != NULL);
	CHECK(ended(a, request).code == MX_STATUS_SUCCESS);
	request = isend(a, to_b, 3, memory, sizeof memory);
	OK(mx_ibuffered(a, &request, &result));
	CHECK(result == 0);
	OK(mx_buffered(a, &request, 20, &result));
	CHECK(result == 0);
	again = irecv(b, 3, ALL, other, sizeof other);
	CHECK(ended(b, again).code == MX_STATUS_SUCCESS);
	OK(mx_buffered(a, &request, LONG, &result));
	CHECK(result == 1);
	CHECK(ended(a, request).code == MX_STATUS_SUCCESS);
	CHECK(ended(b, irecv(b, 2, ALL, other, 16)).code == MX_STATUS_SUCCESS);
	/* Of receives nothing is buffered. */
	request = irecv(b, 4, ALL, memory, 1);
	RETURNS(mx_ibuffered(b, &request, &result), MX_BAD_REQUEST);
	RETURNS(mx_buffered(b, &request, 1, &result), MX_BAD_REQUEST);
	OK(mx_cancel(b, &request, &result));
}

void test_any(void)
{
	mx_request_t first, second, third;
	mx_status_t status;
	uint32_t result = 9;
	OK(mx_test_any(b, 0, 0, &status, &result));
	CHECK(result == 0);
	OK(mx_wait_any(b, 30, 0, 0, &status, &result));
	CHECK(result == 0);
	first = irecv(b, 1, ALL, memory, 1);
	second = irecv(b, 2, ALL, memory + 1, 1);
	third = irecv(b, 3, ALL, memory + 2, 1);
	for (uint64_t bits = 3; bits >= 1; bits--)
		CHECK(ended(a, isend(a, to_b, bits, other, 1)).code == MX_STATUS_SUCCESS);
	/* By what they match, whatever else has ended. */
	OK(mx_wait_any(b, LONG, 2, ALL, &status, &result));
	CHECK(result == 1 && status.match_info == 2 && status.context == memory + 1);
	/* And the oldest end first. */
	OK(mx_wait_any(b, LONG, 0, 0, &status, &result));
	CHECK(result == 1 && status.match_info == 3);
	OK(mx_wait_any(b, LONG, 1, 1, &status, &result));
	CHECK(result == 1 && status.match_info == 1);
	OK(mx_test_any(b, 0, 0, &status, &result));
	CHECK(result == 0);
	/* They are gone. */
	RETURNS(mx_test(b, &first, &status, &result), MX_BAD_REQUEST);
	RETURNS(mx_test(b, &second, &status, &result), MX_BAD_REQUEST);
	RETURNS(mx_test(b, &third, &status, &result), MX_BAD_REQUEST);
	/* Sends are among them. */
	first = isend(a, to_b, 0x55, other, 1);
	OK(mx_wait_any(a, LONG, 0x55, ALL, &status, &result));
	CHECK(result == 1 && status.context == other);
	ended(b, irecv(b, 0x55, ALL, memory, 1));
}

void test_peeking(void)
{
	mx_request_t first, second, seen = NULL;
	mx_status_t status;
	uint32_t result = 9;
	OK(mx_ipeek(b, &seen, &result));
	CHECK(result == 0);
	OK(mx_peek(b, 30, &seen, &result));
	CHECK(result == 0);
	first = irecv(b, 1, ALL, memory, 1);
	second = irecv(b, 2, ALL, memory, 1);
	ended(a, isend(a, to_b, 2, other, 1));
	OK(mx_peek(b, LONG, &seen, &result));
	CHECK(result == 1 && seen == second);
	/* It stays. */
	seen = NULL;
	OK(mx_ipeek(b, &seen, &result));
	CHECK(result == 1 && seen == second);
	OK(mx_test(b, &seen, &status, &result));
	CHECK(result == 1 && status.match_info == 2);
	OK(mx_ipeek(b, &seen, &result));
	CHECK(result == 0);
	ended(a, isend(a, to_b, 1, other, 1));
	OK(mx_peek(b, LONG, &seen, &result));
	CHECK(result == 1 && seen == first);
	CHECK(ended(b, first).code == MX_STATUS_SUCCESS);
}

void test_cancel(void)
{
	mx_request_t request, send;
	mx_status_t status;
	uint32_t result = 9;
	/* Before it is matched. */
	request = irecv(b, 1, ALL, memory, 8);
	OK(mx_cancel(b, &request, &result));
	CHECK(result == 1 && request == NULL);
	RETURNS(mx_cancel(b, &request, &result), MX_BAD_REQUEST);
	memset(memory, 0, 8);
	memset(other, 1, 8);
	send = isend(a, to_b, 1, other, 8);
	ended(a, send);
	OK(mx_wait_any(b, 50, 0, 0, &status, &result));
	CHECK(result == 0 && memory[0] == 0);
	/* The message is there for the next one. */
	request = irecv(b, 1, ALL, memory, 8);
	OK(mx_wait(b, &request, LONG, &status, &result));
	CHECK(result == 1 && memory[0] == 1);
	/* After it has ended. */
	request = irecv(b, 2, ALL, memory, 8);
	ended(a, isend(a, to_b, 2, other, 8));
	mx_request_t there = NULL;
	OK(mx_peek(b, LONG, &there, &result));
	CHECK(result == 1 && there == request);
	OK(mx_cancel(b, &request, &result));
	CHECK(result == 0 && request != NULL);
	CHECK(ended(b, request).code == MX_STATUS_SUCCESS);
	/* Sends cannot be cancelled. */
	send = isend(a, to_b, 3, other, sizeof other);
	RETURNS(mx_cancel(a, &send, &result), MX_CANCEL_NOT_SUPPORTED);
	CHECK(ended(b, irecv(b, 3, ALL, memory, sizeof memory)).code == MX_STATUS_SUCCESS);
	CHECK(ended(a, send).code == MX_STATUS_SUCCESS);
}

void test_forget(void)
{
	mx_request_t request, copy;
	mx_status_t status;
	uint32_t result = 9;
	/* Before the end, and after. */
	for (int late = 0; late < 2; late++) {
		memset(memory, 0, 8);
		memset(other, 2, 8);
		request = copy = irecv(b, 1, ALL, memory, 8);
		if (!late)
			OK(mx_forget(b, &request));
		ended(a, isend(a, to_b, 1, other, 8));
		UNTIL_BY(*(volatile unsigned char *)&memory[7] == 2, OK(mx_progress(b)));
		if (late) {
			mx_request_t seen;
			OK(mx_peek(b, LONG, &seen, &result));
			OK(mx_forget(b, &request));
		}
		CHECK(request == NULL && memory[7] == 2);
		OK(mx_test_any(b, 0, 0, &status, &result));
		CHECK(result == 0);
		RETURNS(mx_test(b, &copy, &status, &result), MX_BAD_REQUEST);
		RETURNS(mx_forget(b, &copy), MX_BAD_REQUEST);
	}
	RETURNS(mx_forget(b, &request), MX_BAD_REQUEST);
}

/* Handles that are none, old ones, another endpoint's, addresses of anything. */
void test_wrong_handles(void)
{
	int something;
	mx_endpoint_t wrong[] = {NULL, (mx_endpoint_t)&something, (mx_endpoint_t)-1L, (mx_endpoint_t)1,
		(mx_endpoint_t)((uintptr_t)a ^ 1), (mx_endpoint_t)((uintptr_t)a ^ (1u << 20))};
	mx_request_t request = irecv(b, 1, ALL, memory, 1), none;
	mx_status_t status;
	mx_endpoint_addr_t address;
	mx_segment_t one = segment(memory, 1);
	uint32_t result;
	void *context;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		mx_endpoint_t e = wrong[i];
		if (e == b)
			continue;
		RETURNS(mx_close_endpoint(e), MX_BAD_ENDPOINT);
		RETURNS(mx_wakeup(e), MX_BAD_ENDPOINT);
		RETURNS(mx_disable_progression(e), MX_BAD_ENDPOINT);
		RETURNS(mx_reenable_progression(e), MX_BAD_ENDPOINT);
		RETURNS(mx_get_endpoint_addr(e, &address), MX_BAD_ENDPOINT);
		RETURNS(mx_isend(e, &one, 1, to_b, 0, NULL, &none), MX_BAD_ENDPOINT);
		RETURNS(mx_issend(e, &one, 1, to_b, 0, NULL, &none), MX_BAD_ENDPOINT);
		RETURNS(mx_irecv(e, &one, 1, 0, 0, NULL, &none), MX_BAD_ENDPOINT);
		RETURNS(mx_cancel(e, &request, &result), MX_BAD_ENDPOINT);
		RETURNS(mx_test(e, &request, &status, &result), MX_BAD_ENDPOINT);
		RETURNS(mx_wait(e, &request, 1, &status, &result), MX_BAD_ENDPOINT);
		RETURNS(mx_test_any(e, 0, 0, &status, &result), MX_BAD_ENDPOINT);
		RETURNS(mx_wait_any(e, 1, 0, 0, &status, &result), MX_BAD_ENDPOINT);
		RETURNS(mx_ipeek(e, &none, &result), MX_BAD_ENDPOINT);
		RETURNS(mx_peek(e, 1, &none, &result), MX_BAD_ENDPOINT);
		RETURNS(mx_iprobe(e, 0, 0, &status, &result), MX_BAD_ENDPOINT);
		RETURNS(mx_probe(e, 1, 0, 0, &status, &result), MX_BAD_ENDPOINT);
		RETURNS(mx_ibuffered(e, &request, &result), MX_BAD_ENDPOINT);
		RETURNS(mx_buffered(e, &request, 1, &result), MX_BAD_ENDPOINT);
		RETURNS(mx_connect(e, nic, id_b, KEY + 1, LONG, &address), MX_BAD_ENDPOINT);
		RETURNS(mx_iconnect(e, nic, id_b, KEY + 1, 0, NULL, &none), MX_BAD_ENDPOINT);
		RETURNS(mx_disconnect(e, to_b), MX_BAD_ENDPOINT);
		RETURNS(mx_register_unexp_handler(e, NULL, NULL), MX_BAD_ENDPOINT);
		RETURNS(mx_register_unexp_callback(e, NULL, NULL), MX_BAD_ENDPOINT);
		RETURNS(mx_forget(e, &request), MX_BAD_ENDPOINT);
		RETURNS(mx_progress(e), MX_BAD_ENDPOINT);
		RETURNS(mx_set_request_timeout(e, NULL, 5), MX_BAD_ENDPOINT);
		RETURNS(mx_iput(e, memory, 1, to_b, 0, NULL, &none), MX_BAD_ENDPOINT);
		RETURNS(mx_iget(e, memory, 1, to_b, 0, NULL, &none), MX_BAD_ENDPOINT);
		if (e != NULL)
			RETURNS(mx_get_info(e, MX_NIC_COUNT, NULL, 0, &result, 4), MX_BAD_ENDPOINT);
	}
	RETURNS(mx_iput(a, memory, 1, to_b, 0, NULL, &none), MX_FAILURE);
	RETURNS(mx_iget(a, memory, 1, to_b, 0, NULL, &none), MX_FAILURE);
	/* Requests that are another endpoint's, or an endpoint, or anything. */
	RETURNS(mx_test(a, &request, &status, &result), MX_BAD_REQUEST);
	RETURNS(mx_cancel(a, &request, &result), MX_BAD_REQUEST);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		none = (mx_request_t)wrong[i];
		RETURNS(mx_test(b, &none, &status, &result), MX_BAD_REQUEST);
		RETURNS(mx_wait(b, &none, 1, &status, &result), MX_BAD_REQUEST);
		RETURNS(mx_cancel(b, &none, &result), MX_BAD_REQUEST);
		RETURNS(mx_forget(b, &none), MX_BAD_REQUEST);
		RETURNS(mx_ibuffered(b, &none, &result), MX_BAD_REQUEST);
		RETURNS(mx_context(&none, &context), MX_BAD_REQUEST);
		if (none != NULL)
			RETURNS(mx_set_request_timeout(b, none, 5), MX_BAD_REQUEST);
	}
	RETURNS(mx_test(b, NULL, &status, &result), MX_BAD_REQUEST);
	RETURNS(mx_wait(b, NULL, 1, &status, &result), MX_BAD_REQUEST);
	RETURNS(mx_cancel(b, NULL, &result), MX_BAD_REQUEST);
	RETURNS(mx_forget(b, NULL), MX_BAD_REQUEST);
	RETURNS(mx_context(NULL, &context), MX_BAD_REQUEST);
	/* Results that nobody wants to know. */
	OK(mx_test(b, &request, NULL, NULL));
	OK(mx_cancel(b, &request, NULL));
	CHECK(request == NULL);
}
