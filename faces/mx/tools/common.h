/* What the tools of the MX face share: options, names, times. */
#ifndef COMMON_H
#define COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mx_extensions.h"
#include "myriexpress.h"

/* Where the two sides of a measurement are, unless said otherwise. */
#define RECEIVER_ID 4
#define KEY 0x656d7031u /* "emp1" */

static const char *tool;

static inline void fail(const char *what, mx_return_t code)
{
	fprintf(stderr, "%s: %s: %s\n", tool, what, mx_strerror(code));
	exit(1);
}

static inline void must(const char *what, mx_return_t code)
{
	if (code != MX_SUCCESS)
		fail(what, code);
}

static inline double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* A number from the command line; a mistake ends the tool with code 2. */
static inline unsigned long number(const char *option, const char *text, unsigned long max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 0);
	if (*text == 0 || *text == '-' || *end != 0 || value > max) {
		fprintf(stderr, "%s: -%s %s: must be a number of at most %lu\n", tool, option, text, max);
		exit(2);
	}
	return value;
}

/* What both sides of a measurement are told. */
struct options {
	const char *destination;
	unsigned long board, id, remote_id, start, end, repetitions, multiplier;
	int verify, blocking;
};

static inline void usage(const char *what, const char *more)
{
	fprintf(stderr,
	    "%s: %s\n\n"
	    "usage: %s [-b BOARD] [-e ID]                      waits for the other side\n"
	    "       %s -d HOST[:BOARD] [-r ID] [OPTIONS]       runs against it\n\n"
	    "  -d HOST[:BOARD]  where the other side is\n"
	    "  -r ID            its endpoint id (%d)\n"
	    "  -b BOARD         board of this side (any)\n"
	    "  -e ID            endpoint id of this side (%d if it waits, any if not)\n"
	    "  -S BYTES         shortest message (1)\n"
	    "  -E BYTES         longest message (4194304)\n"
	    "  -M FACTOR        from each length to the next (2)\n"
	    "  -N COUNT         messages of each length (1000; fewer of long ones)\n"
	    "  -V               verify what arrives\n"
	    "  -w               wait by sleeping in mx_wait, not by looking with mx_test\n%s",
	    tool, what, tool, tool, RECEIVER_ID, RECEIVER_ID, more);
}

static inline struct options read_options(int count, char **arguments, const char *what, const char *more)
{
	struct options options = {.destination = NULL,
		.board = MX_ANY_NIC,
		.id = MX_ANY_ENDPOINT,
		.remote_id = RECEIVER_ID,
		.start = 1,
		.end = 4 << 20,
		.repetitions = 1000,
		.multiplier = 2};
	int option;
	while ((option = getopt(count, arguments, "d:r:b:e:S:E:M:N:Vwh")) != -1) {
		switch (option) {
		case 'd':
			options.destination = optarg;
			break;
		case 'r':
			options.remote_id = number("r", optarg, 255);
			break;
		case 'b':
			options.board = number("b", optarg, 255);
			break;
		case 'e':
			options.id = number("e", optarg, 255);
			break;
		case 'S':
			options.start = number("S", optarg, 1ul << 30);
			break;
		case 'E':
			options.end = number("E", optarg, 1ul << 30);
			break;
		case 'M':
			options.multiplier = number("M", optarg, 1024);
			break;
		case 'N':
			options.repetitions = number("N", optarg, 1ul << 30);
			break;
		case 'V':
			options.verify = 1;
			break;
		case 'w':
			options.blocking = 1;
			break;
		case 'h':
			usage(what, more);
			exit(0);
		default:
			exit(2);
		}
	}
	if (optind < count) {
		fprintf(stderr, "%s: %s: unknown argument (-h shows what there is)\n", tool, arguments[optind]);
		exit(2);
	}
	if (options.multiplier < 2 || options.repetitions < 1 || options.start > options.end) {
		fprintf(stderr, "%s: -M must be at least 2, -N at least 1, and -S at most -E\n", tool);
		exit(2);
	}
	return options;
}

/* What the active side tells the passive one of each length; a length of END_OF_RUN ends. */
struct round {
	uint64_t length, repetitions, verify;
};
#define END_OF_RUN UINT64_MAX
enum { ROUND = 1, DATA = 2, DONE = 3 };

static mx_endpoint_t endpoint;
static mx_endpoint_addr_t peer;
static int blocking;

static inline mx_request_t start_send(uint64_t match, void *memory, uint32_t length)
{
	mx_segment_t segment = {memory, length};
	mx_request_t request = NULL;
	must("sending", mx_isend(endpoint, &segment, 1, peer, match, NULL, &request));
	return request;
}

static inline mx_request_t start_receive(uint64_t match, void *memory, uint32_t length)
{
	mx_segment_t segment = {memory, length};
	mx_request_t request = NULL;
	must("receiving", mx_irecv(endpoint, &segment, 1, match, MX_MATCH_MASK_NONE, NULL, &request));
	return request;
}

static inline mx_status_t finish(mx_request_t request)
{
	mx_status_t status;
	uint32_t done = 0;
	while (!done) {
		if (blocking)
			must("waiting", mx_wait(endpoint, &request, MX_INFINITE, &status, &done));
		else
			must("testing", mx_test(endpoint, &request, &status, &done));
	}
	if (status.code != MX_STATUS_SUCCESS) {
		fprintf(stderr, "%s: the other side: %s\n", tool, mx_strstatus(status.code));
		exit(1);
	}
	return status;
}

static inline void fill(unsigned char *memory, uint64_t length, uint64_t seed)
{
	for (uint64_t i = 0; i < length; i++)
		memory[i] = (unsigned char)(seed + i * 13 + (i >> 8));
}

static inline void verify(const unsigned char *memory, uint64_t length, uint64_t seed)
{
	for (uint64_t i = 0; i < length; i++)
		if (memory[i] != (unsigned char)(seed + i * 13 + (i >> 8))) {
			fprintf(stderr, "%s: byte %llu of a message of %llu is wrong\n", tool,
			    (unsigned long long)i, (unsigned long long)length);
			exit(1);
		}
}

/* Long messages are sent less often: about as many bytes as 1000 of 64 KB. */
static inline uint64_t repetitions(const struct options *options, uint64_t length)
{
	uint64_t most = length ? (64ull << 20) / length + 4 : options->repetitions;
	return options->repetitions < most ? options->repetitions : most;
}

/* The next length; 0 comes before 1. */
static inline uint64_t next_length(uint64_t length, const struct options *options)
{
	return length == 0 ? 1 : length * options->multiplier;
}

/* Opens this side, and connects it if it is the active one; the passive one learns its peer by the first round. */
static inline void open_side(const struct options *options)
{
	uint64_t nic;
	char name[MX_MAX_HOSTNAME_LEN];
	uint32_t id = (uint32_t)options->id;
	mx_endpoint_addr_t own;
	mx_set_error_handler(MX_ERRORS_RETURN);
	must("starting", mx_init());
	if (options->destination == NULL && options->id == MX_ANY_ENDPOINT)
		id = RECEIVER_ID;
	must("opening an endpoint", mx_open_endpoint((uint32_t)options->board, id, KEY, NULL, 0, &endpoint));
	blocking = options->blocking;
	if (options->destination != NULL) {
		must(options->destination, mx_hostname_to_nic_id((char *)options->destination, &nic));
		/* The other side may be about to begin. */
		double start = now();
		mx_return_t code;
		do
			code = mx_connect(endpoint, nic, (uint32_t)options->remote_id, KEY, 10000, &peer);
		while (code == MX_CONNECTION_FAILED && now() - start < 10 && usleep(10000) == 0);
		must(options->destination, code);
		return;
	}
	must("its address", mx_get_endpoint_addr(endpoint, &own));
	must("its address", mx_decompose_endpoint_addr(own, &nic, &id));
	must("its name", mx_nic_id_to_hostname(nic, name));
	printf("waiting at %s, endpoint %u\n", name, id);
	fflush(stdout);
}

#endif
