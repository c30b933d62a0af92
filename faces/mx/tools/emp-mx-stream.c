/* emp-mx-stream: how much flows from one MX endpoint to another when messages follow each other. */
#include "common.h"

/* Messages that are under way at a time. */
enum { AT_ONCE = 16 };

/* Keeps AT_ONCE requests going, each with its own buffer. */
static void flow(struct round round, unsigned char *memory, int sends)
{
	mx_request_t requests[AT_ONCE] = {NULL};
	uint32_t length = (uint32_t)round.length;
	for (uint64_t i = 0; i < round.repetitions + AT_ONCE; i++) {
		unsigned char *buffer = memory + (i % AT_ONCE) * round.length;
		mx_request_t *request = &requests[i % AT_ONCE];
		if (*request != NULL) {
			finish(*request);
			*request = NULL;
			if (!sends && round.verify)
				verify(buffer, length, i - AT_ONCE);
		}
		if (i >= round.repetitions)
			continue;
		if (sends && round.verify)
			fill(buffer, length, i);
		*request = sends ? start_send(DATA, buffer, length) : start_receive(DATA, buffer, length);
	}
}

static void lead(const struct options *options, unsigned char *memory)
{
	struct round round;
	printf("%10s %14s %14s   from here to there\n", "bytes", "MB/s", "messages/s");
	for (uint64_t length = options->span.start; length <= options->span.end; length = next_length(length, &options->span)) {
		double start;
		round.length = length;
		round.repetitions = repetitions(&options->span, length);
		round.verify = (uint64_t)options->span.verify;
		finish(start_send(ROUND, &round, sizeof round));
		/* The other side is ready. */
		finish(start_receive(DONE, NULL, 0));
		start = now();
		flow(round, memory, 1);
		finish(start_receive(DONE, NULL, 0));
		start = (now() - start) / (double)round.repetitions;
		printf("%10llu %14.3f %14.0f\n", (unsigned long long)length, (double)length / start / 1e6,
		    1 / start);
		fflush(stdout);
	}
	round.length = END_OF_RUN;
	finish(start_send(ROUND, &round, sizeof round));
}

static void follow(unsigned char *memory, uint64_t room)
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
		finish(start_send(DONE, NULL, 0));
		flow(round, memory, 0);
		finish(start_send(DONE, NULL, 0));
	}
}

int main(int count, char **arguments)
{
	struct options options;
	unsigned char *memory;
	tool = "emp-mx-stream";
	options = read_options(count, arguments, "throughput from one MX endpoint to another", "");
	memory = calloc(AT_ONCE, options.span.end + 1);
	if (memory == NULL) {
		fprintf(stderr, "%s: no memory for messages of %lu bytes\n", tool, options.span.end);
		return 1;
	}
	open_side(&options);
	if (options.destination != NULL)
		lead(&options, memory);
	else
		follow(memory, options.span.end);
	must("closing", mx_close_endpoint(endpoint));
	must("ending", mx_finalize());
	free(memory);
	return 0;
}
