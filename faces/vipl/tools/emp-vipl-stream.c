/* emp-vipl-stream: how much flows from one VI to another. VIA has no flow control, so the receiver sends credits. */
#include "pair.h"

/* Messages that one credit stands for; two of them are all that may be under way, with room for the next round's word. */
enum { CREDIT = RECEIVES / 4 };

static void credit(void)
{
	post(outgoing(0));
}

static void take_credit(void)
{
	again(received(vi, blocking));
}

static void flow(const struct round *round)
{
	uint64_t credits = 0;
	for (uint64_t i = 0; i < round->repetitions; i++) {
		VIP_DESCRIPTOR *out;
		if (i >= (credits + 2) * CREDIT) {
			take_credit();
			credits++;
		}
		out = outgoing(round->length);
		if (round->verify)
			fill(data(out), round->length, i);
		post(out);
	}
	/* Those that are left, and one that says that all has arrived. */
	for (; credits < round->repetitions / CREDIT + 1; credits++)
		take_credit();
	drain(0);
}

static void take(const struct round *round)
{
	for (uint64_t i = 0; i < round->repetitions; i++) {
		VIP_DESCRIPTOR *in = received(vi, blocking);
		if (round->verify)
			verify(data(in), round->length, i);
		again(in);
		if (i % CREDIT == CREDIT - 1)
			credit();
	}
	/* The end, whatever the number. */
	credit();
	drain(0);
}

int main(int count, char **arguments)
{
	struct options options;
	struct round round;
	tool = "emp-vipl-stream";
	options = read_options(count, arguments, "d:p:n:l:S:E:M:N:Vwh", "how much flows from one VI to another",
	    "usage: emp-vipl-stream [OPTIONS]            waits for the other side\n"
	    "       emp-vipl-stream -d HOST [OPTIONS]    sends to it\n\n"
	    "  -d HOST     where the other side is\n");
	start(&options);
	if (options.destination == NULL) {
		while (hear(&round))
			take(&round);
		stop(0);
		return 0;
	}
	printf("%10s %12s %14s\n", "bytes", "messages/s", "MB/s");
	for (uint64_t length = options.span.start; length <= options.span.end; length = next_length(length, &options.span)) {
		double begun;
		round = (struct round){length, repetitions(&options.span, length), (uint64_t)options.span.verify};
		tell(&round);
		begun = now();
		flow(&round);
		begun = (now() - begun) / (double)round.repetitions;
		printf("%10llu %12.0f %14.3f\n", (unsigned long long)length, 1 / begun, (double)length / begun / 1e6);
		fflush(stdout);
	}
	round.length = END_OF_RUN;
	tell(&round);
	stop(1);
	return 0;
}
