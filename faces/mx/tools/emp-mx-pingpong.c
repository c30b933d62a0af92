/* emp-mx-pingpong: how long messages take from one MX endpoint to another, and back. */
#include "common.h"

static void run(struct round round, unsigned char *out, unsigned char *in, int active)
{
	uint32_t length = (uint32_t)round.length;
	for (uint64_t i = 0; i < round.repetitions; i++) {
		mx_request_t receive = start_receive(DATA, in, length);
		if (round.verify)
			fill(out, length, i);
		if (active)
			finish(start_send(DATA, out, length));
		finish(receive);
		if (round.verify)
			verify(in, length, i);
		if (!active)
			finish(start_send(DATA, out, length));
	}
}

static void lead(const struct options *options, unsigned char *out, unsigned char *in)
{
	struct round round;
	printf("%10s %12s %14s   half of a round trip\n", "bytes", "us", "MB/s");
	for (uint64_t length = options->span.start; length <= options->span.end; length = next_length(length, &options->span)) {
		double start;
		round.length = length;
		round.repetitions = repetitions(&options->span, length);
		round.verify = (uint64_t)options->span.verify;
		finish(start_send(ROUND, &round, sizeof round));
		start = now();
		run(round, out, in, 1);
		start = (now() - start) / (double)round.repetitions / 2;
		printf("%10llu %12.3f %14.3f\n", (unsigned long long)length, start * 1e6,
		    (double)length / start / 1e6);
		fflush(stdout);
	}
	round.length = END_OF_RUN;
	finish(start_send(ROUND, &round, sizeof round));
}

static void follow(unsigned char *out, unsigned char *in, uint64_t room)
{
	struct round round;
	for (;;) {
		peer = finish(start_receive(ROUND, &round, sizeof round)).source;
		if (round.length == END_OF_RUN)
			return;
		if (round.length > room) {
			fprintf(stderr, "%s: the other side sends more than -E allows here\n", tool);
			exit(1);
		}
		run(round, out, in, 0);
	}
}

int main(int count, char **arguments)
{
	struct options options;
	unsigned char *out, *in;
	tool = "emp-mx-pingpong";
	options = read_options(count, arguments, "half round-trip times of messages between two MX endpoints", "");
	out = calloc(1, options.span.end + 1);
	in = calloc(1, options.span.end + 1);
	if (out == NULL || in == NULL) {
		fprintf(stderr, "%s: no memory for messages of %lu bytes\n", tool, options.span.end);
		return 1;
	}
	open_side(&options);
	if (options.destination != NULL)
		lead(&options, out, in);
	else
		follow(out, in, options.span.end);
	must("closing", mx_close_endpoint(endpoint));
	must("ending", mx_finalize());
	free(out);
	free(in);
	return 0;
}
