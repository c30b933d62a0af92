/* What the faces' tools share: the lengths that they go through, as options of the command line, times, and what bytes are to be. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *tool;

static inline double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* A number from the command line; a mistake ends the tool with code 2. */
static inline unsigned long number(int option, const char *text, unsigned long max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 0);
	if (*text == 0 || *text == '-' || *end != 0 || value > max) {
		fprintf(stderr, "%s: -%c %s: must be a number of at most %lu\n", tool, option, text, max);
		exit(2);
	}
	return value;
}

/* Lengths of messages, and how often each is measured. */
struct span {
	unsigned long start, end, factor, repetitions;
	int verify;
};

#define SPAN {.start = 1, .end = 4 << 20, .factor = 2, .repetitions = 1000}
#define SPAN_LETTERS "S:E:M:N:V"
#define SPAN_USAGE                                                                                 \
	"  -S BYTES         shortest message (1)\n"                                                \
	"  -E BYTES         longest message (4194304)\n"                                           \
	"  -M FACTOR        from each length to the next (2)\n"                                    \
	"  -N COUNT         messages of each length (1000; fewer of long ones)\n"                  \
	"  -V               verify what arrives\n"

/* Takes an option; 0: it is not one of these. Messages may have `most` bytes. */
static inline int read_span(struct span *span, int option, const char *text, unsigned long most)
{
	switch (option) {
	case 'S': span->start = number(option, text, most); return 1;
	case 'E': span->end = number(option, text, most); return 1;
	case 'M': span->factor = number(option, text, 1ul << 30); return 1;
	case 'N': span->repetitions = number(option, text, 1ul << 30); return 1;
	case 'V': span->verify = 1; return 1;
	default: return 0;
	}
}

/* All options were read: they fit each other, or the tool ends with code 2. */
static inline void check_span(const struct span *span)
{
	if (span->factor >= 2 && span->repetitions >= 1 && span->start <= span->end)
		return;
	fprintf(stderr, "%s: -M must be at least 2, -N at least 1, and -S at most -E\n", tool);
	exit(2);
}

/* The next length; 0 comes before 1. */
static inline uint64_t next_length(uint64_t length, const struct span *span)
{
	return length == 0 ? 1 : length * span->factor;
}

/* Bytes of a length at most, so that long ones take about as long as others. */
#define BYTES_OF_A_LENGTH (64ull << 20)

static inline uint64_t repetitions(const struct span *span, uint64_t length)
{
	uint64_t most = BYTES_OF_A_LENGTH / (length + 1) + 4;
	return span->repetitions < most ? span->repetitions : most;
}

static inline void fill(unsigned char *bytes, uint64_t length, uint64_t seed)
{
	for (uint64_t i = 0; i < length; i++)
		bytes[i] = (unsigned char)(seed + i * 13 + (i >> 8));
}

static inline void verify(const unsigned char *bytes, uint64_t length, uint64_t seed)
{
	for (uint64_t i = 0; i < length; i++)
		if (bytes[i] != (unsigned char)(seed + i * 13 + (i >> 8))) {
			fprintf(stderr, "%s: byte %llu of a message of %llu is wrong\n", tool,
			    (unsigned long long)i, (unsigned long long)length);
			exit(1);
		}
}

#endif
