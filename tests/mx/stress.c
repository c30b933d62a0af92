/* Matching under stress: messages and receives in random order, with match information and masks drawn from few bits, so that most
 * compete. Who gets what follows from the two orders alone: each side takes the first of the other that agrees. */
#include "check.h"

enum { EACH = 96, ROUNDS = 40, LENGTH = 40 };

static uint64_t state = 88172645463325252u;

static uint64_t draw(uint64_t below)
{
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return state % below;
}

struct one {
	uint64_t bits, mask;
	mx_request_t request;
	int partner;
	unsigned char memory[LENGTH];
};

static struct one messages[EACH], receives[EACH];

/* Receives in their order take messages in theirs. */
static void pair_up(void)
{
	for (int i = 0; i < EACH; i++)
		messages[i].partner = receives[i].partner = -1;
	for (int r = 0; r < EACH; r++)
		for (int m = 0; m < EACH && receives[r].partner < 0; m++)
			if (messages[m].partner < 0 && (messages[m].bits & receives[r].mask) == receives[r].bits) {
				messages[m].partner = r;
				receives[r].partner = m;
			}
}

static void send_next(int at)
{
	struct one *one = &messages[at];
	fill(one->memory, LENGTH, (unsigned)at);
	one->request = isend(a, to_b, one->bits, one->memory, LENGTH);
}

static void receive_next(int at)
{
	struct one *one = &receives[at];
	memset(one->memory, 0, LENGTH);
	one->request = irecv(b, one->bits, one->mask, one->memory, LENGTH);
}

static void one_round(void)
{
	/* Bits of three values in each of two fields; masks that look at one, both or none. */
	static const uint64_t masks[] = {0, 0x03, 0x30, 0x33, MX_MATCH_MASK_NONE};
	for (int i = 0; i < EACH; i++) {
		messages[i].bits = draw(3) | draw(3) << 4;
		receives[i].mask = masks[draw(5)];
		receives[i].bits = (draw(3) | draw(3) << 4) & receives[i].mask;
	}
	pair_up();
	for (int sent = 0, posted = 0; sent < EACH || posted < EACH;) {
		if (posted == EACH || (sent < EACH && draw(2)))
			send_next(sent++);
		else
			receive_next(posted++);
	}
	for (int r = 0; r < EACH; r++) {
		int m = receives[r].partner;
		if (m < 0)
			continue;
		mx_status_t status = ended(b, receives[r].request);
		CHECK(status.code == MX_STATUS_SUCCESS && status.msg_length == LENGTH);
		CHECK(status.match_info == messages[m].bits);
		CHECK(is_filled(receives[r].memory, LENGTH, (unsigned)m));
	}
	/* Receives that are left have got nothing; messages that are left are there, in their order. */
	for (int r = 0; r < EACH; r++)
		if (receives[r].partner < 0) {
			uint32_t cancelled = 0;
			OK(mx_cancel(b, &receives[r].request, &cancelled));
			CHECK(cancelled == 1);
		}
	for (int m = 0; m < EACH; m++)
		if (messages[m].partner < 0) {
			unsigned char memory[LENGTH];
			mx_status_t status = ended(b, irecv(b, 0, 0, memory, LENGTH));
			CHECK(status.match_info == messages[m].bits && is_filled(memory, LENGTH, (unsigned)m));
		}
	for (int m = 0; m < EACH; m++)
		CHECK(ended(a, messages[m].request).code == MX_STATUS_SUCCESS);
}

void test_match_stress(void)
{
	for (int round = 0; round < ROUNDS; round++)
		one_round();
}
