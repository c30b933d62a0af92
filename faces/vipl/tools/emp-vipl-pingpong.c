/* emp-vipl-pingpong: how long messages take from one VI to another, and back. */
#include "pair.h"

static void run(const struct round *round, int active)
{
	for (uint64_t i = 0; i < round->repetitions; i++) {
		VIP_DESCRIPTOR *in = NULL, *out;
		if (!active)
			in = received(vi, blocking);
		out = outgoing(round->length);
		if (round->verify)
			fill(data(out), round->length, i);
		post(out);
		if (active)
			in = received(vi, blocking);
		if (round->verify)
			verify(data(in), round->length, i);
		again(in);
	}
	drain(0);
}

int main(int count, char **arguments)
{
	struct options options;
	struct round round;
	tool = "emp-vipl-pingpong";
	options = read_options(count, arguments, "d:p:n:l:S:E:M:N:Vwh",
	    "half round-trip times of messages between two VIs",
	    "usage: emp-vipl-pingpong [OPTIONS]            waits for the other side\n"
	    "       emp-vipl-pingpong -d HOST [OPTIONS]    runs against it\n\n"
	    "  -d HOST     where the other side is\n");
	start(&options);
	if (options.destination == NULL) {
		while (hear(&round))
			run(&round, 0);
		stop(0);
		return 0;
	}
	printf("%10s %12s %14s   half of a round trip\n", "bytes", "us", "MB/s");
	for (uint64_t length = options.span.start; length <= options.span.end; length = next_length(length, &options.span)) {
		double begun;
		round = (struct round){length, repetitions(&options.span, length), (uint64_t)options.span.verify};
		tell(&round);
		begun = now();
		run(&round, 1);
		begun = (now() - begun) / (double)round.repetitions / 2;
		printf("%10llu %12.3f %14.3f\n", (unsigned long long)length, begun * 1e6, (double)length / begun / 1e6);
		fflush(stdout);
	}
	round.length = END_OF_RUN;
	tell(&round);
	stop(1);
	return 0;
}
