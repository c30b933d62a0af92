/* Messages that no receive has taken: probing, the handler, progress that is stopped. */
#include <pthread.h>

#include "check.h"

static unsigned char memory[300000], other[300000];

void test_probing(void)
{
	mx_request_t send;
	mx_status_t status;
	uint32_t result = 9;
	OK(mx_iprobe(b, 0, 0, &status, &result));
	CHECK(result == 0);
	OK(mx_probe(b, 40, 0, 0, &status, &result));
	CHECK(result == 0);
	OK(mx_isend(a, NULL, 0, to_b, 1, NULL, NULL));
	fill(other, sizeof other, 4);
	send = isend(a, to_b, 2, other, sizeof other);
	OK(mx_probe(b, LONG, 2, ALL, &status, &result));
	CHECK(result == 1 && status.code == MX_STATUS_SUCCESS && status.match_info == 2);
	CHECK(status.msg_length == sizeof other && status.xfer_length == sizeof other);
	CHECK(memcmp(&status.source, &to_a, sizeof to_a) == 0);
	/* It stays; the first that matches is found. */
	OK(mx_iprobe(b, 2, ALL, &status, &result));
	CHECK(result == 1);
	OK(mx_iprobe(b, 0, 0, &status, &result));
	CHECK(result == 1 && status.match_info == 1 && status.msg_length == 0);
	OK(mx_iprobe(b, 3, ALL, &status, &result));
	CHECK(result == 0);
	CHECK(ended(b, irecv(b, 2, ALL, memory, sizeof memory)).code == MX_STATUS_SUCCESS);
	CHECK(is_filled(memory, sizeof memory, 4));
	CHECK(ended(a, send).code == MX_STATUS_SUCCESS);
	OK(mx_iprobe(b, 2, ALL, &status, &result));
	CHECK(result == 0);
	ended(b, irecv(b, 1, ALL, memory, 0));
	/* What a receive waits for is not unexpected. */
	send = irecv(b, 5, ALL, memory, 1);
	OK(mx_isend(a, NULL, 0, to_b, 5, NULL, NULL));
	OK(mx_probe(b, 40, 5, ALL, &status, &result));
	CHECK(result == 0);
	ended(b, send);
}

static int calls, with_data, in_order = 1;
static uint64_t last;
static mx_unexp_handler_action_t action;
static mx_request_t posted;

static mx_unexp_handler_action_t handler(void *context, mx_endpoint_addr_t source, uint64_t match,
    uint32_t length, void *data)
{
	CHECK(context == &calls);
	CHECK(memcmp(&source, &to_a, sizeof source) == 0);
	calls++;
	in_order = in_order && match >= last;
	last = match;
	if (data != NULL) {
		with_data++;
		CHECK(length == 0 || is_filled(data, length, (unsigned)match));
	}
	return action;
}

/* Posts the receive that takes the message. */
static mx_unexp_handler_action_t receiving(void *context, mx_endpoint_addr_t source, uint64_t match,
    uint32_t length, void *data)
{
	uint32_t result = 9;
	mx_status_t status;
	mx_request_t none = NULL;
	(void)context;
	(void)source;
	(void)data;
	calls++;
	posted = irecv(b, match, ALL, memory, length);
	/* There is no progress in here, and no closing; waiting does not wait. */
	RETURNS(mx_close_endpoint(b), MX_CLOSE_IN_HANDLER);
	OK(mx_progress(b));
	OK(mx_disable_progression(b));
	OK(mx_reenable_progression(b));
	none = irecv(b, 0xffff, ALL, memory, 0);
	OK(mx_wait(b, &none, MX_INFINITE, &status, &result));
	CHECK(result == 0);
	OK(mx_cancel(b, &none, &result));
	/* Sending is allowed. */
	OK(mx_isend(b, NULL, 0, to_a, 0x99, NULL, NULL));
	return MX_RECV_CONTINUE;
}

static void callback(void *context, uint64_t match, int length)
{
	CHECK(context == &last && match == 0x31 && length == 3);
	calls++;
}

static void until_calls(int count)
{
	UNTIL_BY(calls >= count, OK(mx_progress(b)));
	CHECK(calls == count);
}

void test_unexpected(void)
{
	static const uint32_t lengths[] = {0, 1, 32, 128, 1000, 4096, 4097, 40000, 300000};
	enum { COUNT = sizeof lengths / sizeof *lengths };
	mx_request_t sends[COUNT], request;
	mx_status_t status;
	uint32_t result;
	/* Consumed: nobody receives them, and their sends succeed. */
	OK(mx_register_unexp_handler(b, handler, &calls));
	action = MX_RECV_FINISHED;
	for (int i = 0; i < COUNT; i++) {
		fill(other, lengths[i], (unsigned)i);
		sends[i] = isend(a, to_b, (uint64_t)i, other, lengths[i]);
		until_calls(i + 1);
		CHECK(ended(a, sends[i]).code == MX_STATUS_SUCCESS);
	}
	CHECK(in_order && with_data >= 5);
	/* Several that are there at once, in the order in which they came. */
	calls = 0;
	last = 0;
	for (unsigned i = 0; i < 20; i++) {
		fill(other, 100, i);
		CHECK(ended(a, isend(a, to_b, i, other, 100)).code == MX_STATUS_SUCCESS);
	}
	until_calls(20);
	CHECK(in_order);
	OK(mx_iprobe(b, 0, 0, &status, &result));
	CHECK(result == 0);
	/* Left: they are shown once, found by probes, and received in their order. */
	action = MX_RECV_CONTINUE;
	calls = 0;
	last = 0;
	for (int i = 0; i < COUNT; i++) {
		/* The same bytes for all that are under way at once. */
		fill(other, lengths[i], 0);
		sends[i] = isend(a, to_b, 0, other, lengths[i]);
		until_calls(i + 1);
		OK(mx_probe(b, LONG, 0, ALL, &status, &result));
		CHECK(result == 1 && status.msg_length == lengths[0]);
		if (i + 1 < COUNT)
			continue;
		for (int j = 0; j < COUNT; j++) {
			memset(memory, 0xee, sizeof memory);
			status = ended(b, irecv(b, 0, ALL, memory, lengths[j]));
			CHECK(status.code == MX_STATUS_SUCCESS && status.msg_length == lengths[j]);
			CHECK(is_filled(memory, lengths[j], 0));
			CHECK(ended(a, sends[j]).code == MX_STATUS_SUCCESS);
		}
	}
	CHECK(calls == COUNT);
	/* Truncated when it is received later. */
	fill(other, 100, 0);
	OK(mx_isend(a, &(mx_segment_t){other, 100}, 1, to_b, 0, NULL, NULL));
	until_calls(COUNT + 1);
	status = ended(b, irecv(b, 0, ALL, memory, 60));
	CHECK(status.code == MX_STATUS_TRUNCATED && status.msg_length == 100 && status.xfer_length == 60);
	/* What a receive waits for is not shown. */
	request = irecv(b, 0x20, ALL, memory, 10);
	OK(mx_isend(a, &(mx_segment_t){other, 10}, 1, to_b, 0x20, NULL, NULL));
	CHECK(ended(b, request).code == MX_STATUS_SUCCESS && calls == COUNT + 1);
	/* A receive that the handler posts takes it, whatever its length. */
	OK(mx_register_unexp_handler(b, receiving, NULL));
	calls = 0;
	for (int i = 0; i < COUNT; i++) {
		fill(other, lengths[i], 6);
		memset(memory, 0xee, sizeof memory);
		sends[i] = isend(a, to_b, 0x40, other, lengths[i]);
		until_calls(i + 1);
		status = ended(b, posted);
		CHECK(status.code == MX_STATUS_SUCCESS && status.msg_length == lengths[i]);
		CHECK(is_filled(memory, lengths[i], 6));
		CHECK(ended(a, sends[i]).code == MX_STATUS_SUCCESS);
		ended(a, irecv(a, 0x99, ALL, memory, 0));
	}
	/* A thread that waits for something else shows them, too. */
	OK(mx_register_unexp_handler(b, handler, &calls));
	action = MX_RECV_FINISHED;
	calls = 0;
	OK(mx_isend(a, NULL, 0, to_b, 0x41, NULL, NULL));
	OK(mx_wait_any(b, 300, 0, 0, &status, &result));
	CHECK(result == 0 && calls == 1);
	/* The older kind has no say. */
	OK(mx_register_unexp_callback(b, callback, &last));
	calls = 0;
	OK(mx_isend(a, &(mx_segment_t){other, 3}, 1, to_b, 0x31, NULL, NULL));
	until_calls(1);
	CHECK(ended(b, irecv(b, 0x31, ALL, memory, 3)).code == MX_STATUS_SUCCESS);
	OK(mx_register_unexp_callback(b, NULL, NULL));
	/* None again. */
	OK(mx_isend(a, NULL, 0, to_b, 0x32, NULL, NULL));
	CHECK(ended(b, irecv(b, 0x32, ALL, memory, 3)).code == MX_STATUS_SUCCESS);
	CHECK(calls == 1);
}

void test_progression(void)
{
	mx_request_t before, request;
	mx_status_t status;
	uint32_t result = 9;
	double start;
	before = irecv(b, 1, ALL, memory, 1);
	ended(a, isend(a, to_b, 1, other, 1));
	OK(mx_peek(b, LONG, &request, &result));
	CHECK(result == 1 && request == before);
	request = irecv(b, 2, ALL, memory, 1);
	OK(mx_disable_progression(b));
	OK(mx_disable_progression(b));
	ended(a, isend(a, to_b, 2, other, 1));
	pause_ms(20);
	OK(mx_progress(b));
	OK(mx_test(b, &request, &status, &result));
	CHECK(result == 0);
	start = seconds();
	OK(mx_wait(b, &request, 60, &status, &result));
	CHECK(result == 0 && seconds() - start >= 0.05);
	/* What has ended can be asked for. */
	OK(mx_test(b, &before, &status, &result));
	CHECK(result == 1 && status.match_info == 1);
	OK(mx_reenable_progression(b));
	OK(mx_reenable_progression(b));
	CHECK(ended(b, request).code == MX_STATUS_SUCCESS);
}

/* Wakes who sleeps, and who sleeps only later, until that one is awake. */
static int awake;

static void *wake(void *unused)
{
	(void)unused;
	UNTIL_BY(GET(awake), {
		pause_ms(60);
		OK(mx_wakeup(b));
	});
	return NULL;
}

/* Whatever sleeps on the endpoint wakes, with nothing. */
void test_wakeup(void)
{
	mx_request_t request = irecv(b, 1, ALL, memory, 1), seen;
	mx_status_t status;
	double start = seconds();
	for (int kind = 0; kind < 5; kind++) {
		pthread_t thread;
		uint32_t result = 9;
		SET(awake, 0);
		if (pthread_create(&thread, NULL, wake, NULL))
			exit(1);
		switch (kind) {
		case 0:
			OK(mx_wait(b, &request, LONG, &status, &result));
			break;
		case 1:
			OK(mx_wait_any(b, MX_INFINITE, 0, 0, &status, &result));
			break;
		case 2:
			OK(mx_peek(b, LONG, &seen, &result));
			break;
		case 3:
			OK(mx_probe(b, LONG, 0, 0, &status, &result));
			break;
		case 4:
			OK(mx_disable_progression(b));
			OK(mx_wait(b, &request, LONG, &status, &result));
			OK(mx_reenable_progression(b));
			break;
		}
		CHECK(result == 0);
		SET(awake, 1);
		pthread_join(thread, NULL);
	}
	/* None of them slept to the end of its time. */
	CHECK(seconds() - start < LONG / 1000);
	CHECK(request != NULL);
	OK(mx_wakeup(a));
	ended(a, isend(a, to_b, 1, other, 1));
	CHECK(ended(b, request).code == MX_STATUS_SUCCESS);
}

void test_timeouts(void)
{
	mx_request_t request = NULL;
	mx_status_t status;
	uint32_t result;
	double start = seconds();
	/* A connect to nobody, by its own time and by the endpoint's. */
	OK(mx_iconnect(a, 0x020304050607, 0, KEY, 7, NULL, &request));
	OK(mx_set_request_timeout(a, request, 200));
	status = ended(a, request);
	CHECK(status.code == MX_STATUS_ENDPOINT_UNREACHABLE && status.match_info == 7);
	OK(mx_set_request_timeout(a, NULL, 200));
	OK(mx_iconnect(a, 0x020304050607, 1, KEY, 7, NULL, &request));
	CHECK(ended(a, request).code == MX_STATUS_ENDPOINT_UNREACHABLE);
	CHECK(seconds() - start < 10);
	/* Messages that can be delivered are, however long nobody receives them. */
	request = isend(a, to_b, 1, other, 100000);
	pause_ms(400);
	OK(mx_test(a, &request, &status, &result));
	CHECK(ended(b, irecv(b, 1, ALL, memory, 100000)).code == MX_STATUS_SUCCESS);
	CHECK((result ? status : ended(a, request)).code == MX_STATUS_SUCCESS);
	OK(mx_set_request_timeout(a, NULL, MX_INFINITE));
}
