/* Messages: sizes, segments, matching, truncation. */
#include <unistd.h>

#include "check.h"

enum { BIG = 4 << 20 };
static unsigned char from[BIG + 8], into[BIG + 8];

static void exchange(uint32_t length, int late)
{
	mx_request_t send = NULL, receive = NULL;
	mx_status_t status;
	unsigned seed = length + (unsigned)late;
	fill(from, length, seed);
	memset(into, 0xee, length + 8);
	if (!late)
		receive = irecv(b, length, ALL, into, length + 4);
	send = isend(a, to_b, length, from, length);
	if (late) {
		OK(mx_progress(b));
		receive = irecv(b, length, ALL, into, length + 4);
	}
	status = ended(b, receive);
	CHECK(status.code == MX_STATUS_SUCCESS && status.match_info == length);
	CHECK(status.msg_length == length && status.xfer_length == length);
	CHECK(status.context == into && memcmp(&status.source, &to_a, sizeof to_a) == 0);
	CHECK(is_filled(into, length, seed) && into[length] == 0xee);
	status = ended(a, send);
	CHECK(status.code == MX_STATUS_SUCCESS && status.match_info == length);
	CHECK(status.msg_length == length && status.xfer_length == length);
	CHECK(status.context == from && memcmp(&status.source, &to_b, sizeof to_b) == 0);
}

/* Around what MX sends in different ways, and what EMP does. */
void test_sizes(void)
{
	static const uint32_t lengths[] = {0, 1, 31, 32, 33, 127, 128, 129, 1400, 1500, 4095, 4096, 4097,
		8192, 32767, 32768, 32769, 65535, 65536, 65537, 100000, 1 << 20, BIG};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (int late = 0; late < 2; late++)
			exchange(lengths[i], late);
}

void test_segments(void)
{
	mx_segment_t out[MX_MAX_SEGMENTS + 1], in[MX_MAX_SEGMENTS + 1];
	mx_request_t send = NULL, receive = NULL;
	mx_status_t status;
	uint32_t total = 0, place = 0;
	for (int i = 0; i <= MX_MAX_SEGMENTS; i++) {
		out[i] = segment(from + total, (uint32_t)(i * 37 % 500));
		total += out[i].segment_length;
		in[i] = segment(into + place, (uint32_t)(i * 61 % 700));
		place += in[i].segment_length;
	}
	RETURNS(mx_isend(a, out, MX_MAX_SEGMENTS + 1, to_b, 0, NULL, &send), MX_BAD_SEG_CNT);
	RETURNS(mx_issend(a, out, MX_MAX_SEGMENTS + 1, to_b, 0, NULL, &send), MX_BAD_SEG_CNT);
	RETURNS(mx_irecv(a, in, MX_MAX_SEGMENTS + 1, 0, 0, NULL, &send), MX_BAD_SEG_CNT);
	RETURNS(mx_isend(a, NULL, 1, to_b, 0, NULL, &send), MX_BAD_SEG_LIST);
	RETURNS(mx_irecv(a, NULL, 1, 0, 0, NULL, &send), MX_BAD_SEG_LIST);
	total -= out[MX_MAX_SEGMENTS].segment_length;
	for (int round = 0; round < 2; round++) {
		fill(from, total, 9);
		memset(into, 0, place);
		OK(mx_irecv(b, in, MX_MAX_SEGMENTS, 4, ALL, NULL, &receive));
		OK((round ? mx_issend : mx_isend)(a, out, MX_MAX_SEGMENTS, to_b, 4, NULL, &send));
		if (!round)
			/* The list may be used for something else at once. */
			memset(out, 0, sizeof *out);
		status = ended(b, receive);
		CHECK(status.code == MX_STATUS_SUCCESS && status.msg_length == total);
		CHECK(is_filled(into, total, 9));
		CHECK(ended(a, send).code == MX_STATUS_SUCCESS);
	}
	/* Segments of no bytes may be anywhere; others may not. */
	out[0] = segment(NULL, 0);
	out[1] = segment(from, 5);
	OK(mx_isend(a, out, 2, to_b, 5, NULL, &send));
	CHECK(ended(a, send).msg_length == 5);
	CHECK(ended(b, irecv(b, 5, ALL, into, 5)).msg_length == 5);
	out[0] = segment(NULL, 1);
	RETURNS(mx_isend(a, out, 2, to_b, 5, NULL, &send), MX_BAD_SEG_MEM);
	RETURNS(mx_irecv(a, out, 2, 5, ALL, NULL, &send), MX_BAD_SEG_MEM);
	out[0] = segment(from, 0x80000000u);
	out[1] = segment(from, 0x80000000u);
	RETURNS(mx_isend(a, out, 2, to_b, 5, NULL, &send), MX_BAD_SEG_LIST);
	/* Without a request nobody hears of the end. */
	out[0] = segment(from, 3);
	OK(mx_isend(a, out, 1, to_b, 6, NULL, NULL));
	OK(mx_issend(a, out, 1, to_b, 6, NULL, NULL));
	OK(mx_irecv(b, out, 1, 6, ALL, NULL, NULL));
	CHECK(ended(b, irecv(b, 6, ALL, into, 3)).xfer_length == 3);
}

void test_matching(void)
{
	unsigned char got[8], values[8] = {0, 1, 2, 3, 4, 5, 6, 7};
	mx_request_t requests[4], request = NULL;
	mx_status_t status;
	uint32_t result;
	/* Posted first is matched first, among those that match. */
	requests[0] = irecv(b, 0x1100, 0xff00, got + 0, 1);
	requests[1] = irecv(b, 0x1122, 0xffff, got + 1, 1);
	requests[2] = irecv(b, 0, 0, got + 2, 1);
	requests[3] = irecv(b, 0x22, 0xff, got + 3, 1);
	for (int i = 1; i <= 4; i++) {
		static const uint64_t bits[] = {0, 0x1122, 0x1122, 0xabcd00000000ffffu, 0x9922};
		OK(mx_isend(a, &(mx_segment_t){values + i, 1}, 1, to_b, bits[i], NULL, NULL));
	}
	for (int i = 0; i < 4; i++) {
		status = ended(b, requests[i]);
		CHECK(status.code == MX_STATUS_SUCCESS && got[i] == values[i + 1]);
	}
	CHECK(status.match_info == 0x9922);
	/* What comes unexpected is matched in the order in which it came, large and small. */
	fill(from, BIG, 3);
	requests[0] = isend(a, to_b, 7, from, 200000);
	OK(mx_isend(a, &(mx_segment_t){values + 5, 1}, 1, to_b, 7, NULL, NULL));
	OK(mx_isend(a, &(mx_segment_t){values + 6, 1}, 1, to_b, 8, NULL, NULL));
	OK(mx_isend(a, &(mx_segment_t){values + 7, 1}, 1, to_b, 7, NULL, NULL));
	status = ended(b, irecv(b, 8, ALL, got, 1));
	CHECK(got[0] == 6);
	status = ended(b, irecv(b, 0, 0, into, 200000));
	CHECK(status.msg_length == 200000 && is_filled(into, 200000, 3));
	CHECK(ended(a, requests[0]).code == MX_STATUS_SUCCESS);
	ended(b, irecv(b, 7, ALL, got, 1));
	CHECK(got[0] == 5);
	ended(b, irecv(b, 7, ALL, got, 1));
	CHECK(got[0] == 7);
	/* Bits that are not looked at must be zero. */
	RETURNS(mx_irecv(b, NULL, 0, 1, 0, NULL, &request), MX_BAD_MATCH_MASK);
	RETURNS(mx_test_any(b, 1, 0, &status, &result), MX_BAD_MATCH_MASK);
	RETURNS(mx_wait_any(b, 1, 1, 0, &status, &result), MX_BAD_MATCH_MASK);
	RETURNS(mx_iprobe(b, 1, 0, &status, &result), MX_BAD_MATCH_MASK);
	RETURNS(mx_probe(b, 1, 1, 0, &status, &result), MX_BAD_MATCH_MASK);
}

void test_truncation(void)
{
	static const uint32_t lengths[] = {10, 1000, 40000, 500000};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (int late = 0; late < 2; late++) {
			uint32_t length = lengths[i], room = length / 2 - 1;
			mx_request_t send, receive = NULL;
			mx_status_t status;
			fill(from, length, 5);
			memset(into, 0xee, length);
			if (!late)
				receive = irecv(b, 1, ALL, into, room);
			send = isend(a, to_b, 1, from, length);
			if (late) {
				pause_ms(2);
				OK(mx_progress(b));
				receive = irecv(b, 1, ALL, into, room);
			}
			status = ended(b, receive);
			CHECK(status.code == MX_STATUS_TRUNCATED);
			CHECK(status.msg_length == length && status.xfer_length == room);
			CHECK(is_filled(into, room, 5) && into[room] == 0xee && into[length - 1] == 0xee);
			CHECK(ended(a, send).code == MX_STATUS_SUCCESS);
		}
	/* Into nothing. */
	{
		mx_request_t receive = NULL, send = isend(a, to_b, 2, from, 100);
		mx_status_t status;
		OK(mx_irecv(b, NULL, 0, 2, ALL, NULL, &receive));
		status = ended(b, receive);
		CHECK(status.code == MX_STATUS_TRUNCATED && status.xfer_length == 0);
		CHECK(ended(a, send).code == MX_STATUS_SUCCESS);
	}
}

void test_synchronous(void)
{
	static const uint32_t lengths[] = {0, 20, 2000, 200000};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		mx_request_t send = NULL;
		mx_segment_t one = segment(from, lengths[i]);
		mx_status_t status;
		uint32_t result = 9;
		OK(mx_issend(a, &one, 1, to_b, 1, &one, &send));
		for (int j = 0; j < 20; j++) {
			OK(mx_progress(b));
			OK(mx_test(a, &send, &status, &result));
			CHECK(result == 0 && send != NULL);
			pause_ms(1);
		}
		CHECK(ended(b, irecv(b, 1, ALL, into, lengths[i])).code == MX_STATUS_SUCCESS);
		status = ended(a, send);
		CHECK(status.code == MX_STATUS_SUCCESS && status.context == &one);
	}
}

void test_self(void)
{
	mx_endpoint_addr_t own;
	mx_request_t send, receive;
	mx_status_t status;
	static const uint32_t lengths[] = {0, 10, 5000, 300000};
	OK(mx_get_endpoint_addr(a, &own));
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (int late = 0; late < 2; late++) {
			fill(from, lengths[i], 8);
			memset(into, 0, lengths[i]);
			receive = late ? NULL : irecv(a, 3, ALL, into, lengths[i]);
			send = isend(a, own, 3, from, lengths[i]);
			if (late)
				receive = irecv(a, 3, ALL, into, lengths[i]);
			status = ended(a, receive);
			CHECK(status.code == MX_STATUS_SUCCESS && status.msg_length == lengths[i]);
			CHECK(memcmp(&status.source, &own, sizeof own) == 0);
			CHECK(is_filled(into, lengths[i], 8));
			CHECK(ended(a, send).code == MX_STATUS_SUCCESS);
		}
}

void test_context_ids(void)
{
	mx_param_t parameter;
	mx_request_t request = NULL;
	mx_status_t status;
	uint32_t result;
	char bytes[3] = {1, 2, 3}, got[3] = {0};
	uint64_t in_1 = (uint64_t)1 << 48, in_2 = (uint64_t)2 << 48, contexts = (uint64_t)0xffff << 48;
	memset(&parameter, 0, sizeof parameter);
	parameter.key = MX_PARAM_CONTEXT_ID;
	parameter.val.context_id.bits = 16;
	parameter.val.context_id.shift = 48;
	MUST(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, &parameter, 1, &a));
	OK(mx_get_endpoint_addr(a, &to_a));
	RETURNS(mx_irecv(a, NULL, 0, 0, 0xffff, NULL, &request), MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK);
	RETURNS(mx_irecv(a, NULL, 0, 0, contexts << 1, NULL, &request),
	    MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK);
	OK(mx_isend(a, &(mx_segment_t){bytes, 1}, 1, to_a, in_1 | 7, NULL, NULL));
	OK(mx_isend(a, &(mx_segment_t){bytes + 1, 1}, 1, to_a, in_2 | 7, NULL, NULL));
	/* The context decides, whatever else is not looked at. */
	CHECK(ended(a, irecv(a, in_2, contexts, got, 1)).match_info == (in_2 | 7));
	CHECK(got[0] == 2);
	/* Looking may span them. */
	OK(mx_probe(a, LONG, 0, 0, &status, &result));
	CHECK(result == 1 && status.match_info == (in_1 | 7));
	OK(mx_iprobe(a, 7, 0xff, &status, &result));
	CHECK(result == 1);
	CHECK(ended(a, irecv(a, in_1, contexts, got, 1)).code == MX_STATUS_SUCCESS);
	CHECK(got[0] == 1);
	OK(mx_close_endpoint(a));
}
