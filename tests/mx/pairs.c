/*
 * Two processes, perhaps on two machines: both go through the same list. What one sends the other expects; the active one
 * knows the other's name, the passive one learns whom it talks to by the first message.
 */
#include "check.h"

enum { PASSIVE_ID = 3, ACTIVE_ID = 4, BIG = 1 << 20 };

static mx_endpoint_t own;
static mx_endpoint_addr_t peer;
static int active;
static unsigned char from[BIG], into[BIG];

/* Bits of what belongs to no test. */
static const uint64_t HELLO = 0xffff0000, TURN = 0xffff0001;

/* Both have got here. */
static void meet(void)
{
	mx_request_t receive = irecv(own, TURN, ALL, into, 0);
	OK(mx_isend(own, NULL, 0, peer, TURN, NULL, NULL));
	ended(own, receive);
}

static void begin(const char *host, const char *called)
{
	mx_request_t request;
	mx_status_t status;
	uint64_t id, of;
	uint32_t number;
	char name[MX_MAX_HOSTNAME_LEN];
	current = "pair: begin";
	MUST(mx_open_endpoint(0, active ? ACTIVE_ID : PASSIVE_ID, KEY, NULL, 0, &own));
	if (active) {
		double start = seconds();
		/* The other one may not have begun. */
		while (mx_hostname_to_nic_id((char *)host, &id) != MX_SUCCESS && seconds() - start < 30)
			;
		MUST(mx_hostname_to_nic_id((char *)host, &id));
		MUST(mx_connect(own, id, PASSIVE_ID, KEY, LONG, &peer));
		MUST(mx_isend(own, NULL, 0, peer, HELLO, NULL, NULL));
		OK(mx_nic_id_to_hostname(id, name));
		CHECK(strcmp(name, called) == 0);
	} else {
		request = irecv(own, HELLO, ALL, into, 0);
		status = ended(own, request);
		MUST(mx_decompose_endpoint_addr(status.source, &id, &number));
		CHECK(number == ACTIVE_ID);
		/* It need not be connected to, but may be. */
		MUST(mx_connect(own, id, number, KEY, LONG, &peer));
		CHECK(memcmp(&peer, &status.source, sizeof peer) == 0);
		OK(mx_nic_id_to_hostname(id, name));
	}
	OK(mx_decompose_endpoint_addr(peer, &of, &number));
	CHECK(of == id && number == (active ? PASSIVE_ID : ACTIVE_ID));
}

/* Wrong ways to connect. */
static void connecting(void)
{
	mx_endpoint_addr_t address;
	uint64_t id;
	uint32_t number;
	current = "pair: connecting";
	OK(mx_decompose_endpoint_addr(peer, &id, &number));
	RETURNS(mx_connect(own, id, number, KEY + 1, LONG, &address), MX_BAD_CONNECTION_KEY);
	/* Closed, as far as that can be known, or not answering in the time. */
	{
		mx_return_t got = mx_connect(own, id, 99, KEY, 2500, &address);
		CHECK(got == MX_CONNECTION_FAILED || got == MX_TIMEOUT);
	}
	meet();
}

static void sizes(void)
{
	static const uint32_t lengths[] = {0, 1, 32, 33, 128, 129, 1499, 1500, 4096, 4097, 32768, 32769,
		65536, 65537, 300000, BIG};
	current = "pair: sizes";
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (int turn = 0; turn < 4; turn++) {
			uint32_t length = lengths[i];
			/* One sends, then the other; the receive is posted before or after. */
			if (turn % 2 == active) {
				mx_request_t receive = NULL;
				mx_status_t status;
				uint32_t result;
				memset(into, 0, length);
				if (turn < 2) {
					OK(mx_probe(own, LONG, i, ALL, &status, &result));
					CHECK(result == 1 && status.msg_length == length);
				}
				receive = irecv(own, i, ALL, into, length);
				status = ended(own, receive);
				CHECK(status.code == MX_STATUS_SUCCESS && status.msg_length == length);
				CHECK(is_filled(into, length, (unsigned)turn));
				CHECK(memcmp(&status.source, &peer, sizeof peer) == 0);
			} else {
				mx_segment_t one = segment(from, length);
				mx_request_t send = NULL;
				fill(from, length, (unsigned)turn);
				MUST((turn < 2 ? mx_isend : mx_issend)(own, &one, 1, peer, i, NULL, &send));
				CHECK(ended(own, send).code == MX_STATUS_SUCCESS);
			}
		}
	meet();
}

/* Many at once in both directions, matched by bits in another order than they were sent. */
static void flood(void)
{
	enum { MANY = 500 };
	static mx_request_t receives[MANY];
	static uint32_t in[MANY], out[MANY];
	current = "pair: flood";
	for (uint32_t round = 0; round < 4; round++) {
		for (uint32_t i = 0; i < MANY; i++)
			receives[i] = irecv(own, MANY - 1 - i, ALL, &in[MANY - 1 - i], 4);
		for (uint32_t i = 0; i < MANY; i++) {
			mx_segment_t one = segment(&out[i], 4);
			out[i] = i ^ round;
			OK(mx_isend(own, &one, 1, peer, i, NULL, NULL));
		}
		for (uint32_t i = 0; i < MANY; i++)
			CHECK(ended(own, receives[i]).code == MX_STATUS_SUCCESS);
		for (uint32_t i = 0; i < MANY; i++)
			CHECK(in[i] == (i ^ round));
		meet();
	}
}

static void stream(void)
{
	enum { AT_ONCE = 8, COUNT = 64, BYTES = 200000 };
	static unsigned char buffers[AT_ONCE][BYTES];
	mx_request_t requests[AT_ONCE];
	current = "pair: stream";
	for (int i = 0; i < AT_ONCE; i++)
		requests[i] = NULL;
	for (unsigned i = 0; i < COUNT + AT_ONCE; i++) {
		unsigned char *buffer = buffers[i % AT_ONCE];
		mx_request_t *request = &requests[i % AT_ONCE];
		if (*request != NULL) {
			CHECK(ended(own, *request).code == MX_STATUS_SUCCESS);
			if (!active)
				CHECK(is_filled(buffer, BYTES, i - AT_ONCE));
			*request = NULL;
		}
		if (i >= COUNT)
			continue;
		if (active) {
			fill(buffer, BYTES, i);
			*request = isend(own, peer, 5, buffer, BYTES);
		} else
			*request = irecv(own, 5, ALL, buffer, BYTES);
	}
	meet();
}

static int shown;

static mx_unexp_handler_action_t show(void *context, mx_endpoint_addr_t source, uint64_t match,
    uint32_t length, void *data)
{
	(void)context;
	if (match == TURN)
		return MX_RECV_CONTINUE;
	CHECK(memcmp(&source, &peer, sizeof peer) == 0);
	CHECK(match == 6 && (data == NULL || is_filled(data, length, 6)));
	shown++;
	return MX_RECV_FINISHED;
}

static void handled(void)
{
	static const uint32_t lengths[] = {0, 10, 2000, 100000};
	enum { COUNT = sizeof lengths / sizeof *lengths };
	current = "pair: handler";
	if (!active)
		OK(mx_register_unexp_handler(own, show, NULL));
	meet();
	for (int i = 0; i < COUNT && active; i++) {
		fill(from, lengths[i], 6);
		CHECK(ended(own, isend(own, peer, 6, from, lengths[i])).code == MX_STATUS_SUCCESS);
	}
	if (!active) {
		UNTIL_BY(shown >= COUNT, OK(mx_progress(own)));
		CHECK(shown == COUNT);
	}
	meet();
	OK(mx_register_unexp_handler(own, NULL, NULL));
	meet();
}

/* The other one ends first: what is sent to it after that fails, and nothing hangs. */
static void farewell(void)
{
	current = "pair: farewell";
	if (active) {
		mx_request_t send = NULL;
		mx_status_t status;
		mx_segment_t one = segment(from, BIG);
		double start = seconds();
		meet();
		OK(mx_issend(own, &one, 1, peer, 7, NULL, &send));
		status = ended(own, send);
		CHECK(status.code == MX_STATUS_ENDPOINT_CLOSED
		    || status.code == MX_STATUS_ENDPOINT_UNREACHABLE);
		CHECK(seconds() - start < 25);
		OK(mx_close_endpoint(own));
	} else {
		meet();
		OK(mx_close_endpoint(own));
	}
}

int pair(int is_active, const char *host, const char *called)
{
	active = is_active;
	begin(host, called);
	connecting();
	sizes();
	flood();
	stream();
	handled();
	farewell();
	return failures;
}
